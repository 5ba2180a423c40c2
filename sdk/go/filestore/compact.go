package filestore

import (
	"errors"
	"os"
)

const (
	compactSuffix = ".compact"
	compactMin    = 1 << 20
	// A line of a compacted file has at most this many answers, and ends after the answer that passes this many bytes.
	compactBatch = 100
	compactBytes = 1 << 20
)

// compactIfWorthwhile writes the file anew if more than half of it is out of date. A compaction that fails leaves the old file in use,
// and is tried again when the file has grown. The caller holds writing.
func (s *Store) compactIfWorthwhile() {
	s.mu.Lock()
	worthwhile := s.synced >= s.compactAt && s.index.bytes*2 < s.synced
	s.mu.Unlock()
	if !worthwhile {
		return
	}
	if err := s.compact(); err != nil {
		s.logger.Warn("the dedupe file cannot be compacted; it stays in use as it is", "file", s.path, "error", err)
		_ = os.Remove(s.path + compactSuffix)
		s.compactAt = s.synced * 2
		return
	}
	s.compactAt = max(compactMin, s.synced*2)
}

// compact:
//
//	crash before the rename                     the old file counts; Open removes the new one
//	crash after the rename, before the sync     either file may be there: both have the same answers, because nothing is
//	                                            written to the new one before the folder is synced (put syncs it, too)
func (s *Store) compact() error {
	file, err := os.OpenFile(s.path+compactSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	fresh, length, err := s.copyLive(file)
	if err == nil {
		err = errors.Join(file.Sync(), s.fault("before rename"))
	}
	if err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if err := s.fault("after rename"); err != nil {
		return err
	}
	// From here on the new file is the one that Open finds.
	s.mu.Lock()
	old := s.file
	s.file, s.index, s.synced, s.renamed = file, fresh, length, true
	s.mu.Unlock()
	if err := syncFolderOf(s.path); err != nil {
		return errors.Join(err, old.Close())
	}
	s.renamed = false
	return old.Close()
}

func (s *Store) copyLive(file *os.File) (index, int64, error) {
	fresh := newIndex()
	length := int64(len(header))
	if _, err := file.WriteAt([]byte(header), 0); err != nil {
		return fresh, 0, err
	}
	var batch []record
	size := 0
	put := func() error {
		line, entries, err := encode(batch, length)
		if err == nil {
			_, err = file.WriteAt(line, length)
		}
		if err != nil {
			return err
		}
		for i, one := range batch {
			fresh.apply(one, entries[i])
		}
		length += int64(len(line))
		batch, size = batch[:0], 0
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.expire(s.limits, s.now())
	for element := s.index.oldest.Front(); element != nil; element = element.Next() {
		at := element.Value.(entry)
		one, err := readRecord(s.file, at)
		if err != nil {
			return fresh, 0, err
		}
		size += at.length
		if batch = append(batch, one); len(batch) == compactBatch || size > compactBytes {
			if err := put(); err != nil {
				return fresh, 0, err
			}
		}
	}
	if len(batch) > 0 {
		if err := put(); err != nil {
			return fresh, 0, err
		}
	}
	return fresh, length, nil
}
