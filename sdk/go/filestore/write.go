package filestore

import "fmt"

// change is a record that waits to be written.
type change struct {
	record record
	done   chan error
}

// write puts a record into the file and returns when it is on disk. Records that wait while another write runs share the next one.
func (s *Store) write(one record) error {
	mine := &change{record: one, done: make(chan error, 1)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()

	s.writing.Lock()
	defer s.writing.Unlock()
	select {
	case err := <-mine.done: // the goroutine that had the lock before wrote it
		return err
	default:
	}
	s.flush()
	return <-mine.done
}

// flush writes everything that waits as one line, and syncs once. The caller holds writing.
func (s *Store) flush() {
	s.mu.Lock()
	batch := s.waiting
	s.waiting = nil
	closed := s.closed
	s.mu.Unlock()
	records := make([]record, len(batch))
	for i, one := range batch {
		records[i] = one.record
	}
	err := errClosed
	if !closed {
		err = s.append(records)
	}
	for _, one := range batch {
		one.done <- err
	}
	if err == nil {
		s.compactIfWorthwhile()
	}
}

// append writes and syncs one line.
//
//	crash before the write returns    the line is not there, or incomplete: Open cuts it off; no answer left the server
//	crash before the sync returns     the line may or may not be there; no answer left the server
//	crash after the sync              Open finds the line
//	write or sync fails               the length that was synced before still counts; the rest is cut off before the next write
func (s *Store) append(records []record) error {
	if err := s.cutOff(); err != nil {
		return err
	}
	line, entries, err := encode(records, s.synced)
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	if err := s.put(line); err != nil {
		s.mu.Lock()
		s.failing = err
		s.mu.Unlock()
		return fmt.Errorf("filestore: %s cannot be written: %w", s.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced += int64(len(line))
	for i, one := range records {
		s.index.apply(one, entries[i])
	}
	s.index.expire(s.limits, s.now())
	return nil
}

func (s *Store) put(line []byte) error {
	if s.renamed {
		if err := syncFolderOf(s.path); err != nil {
			return err
		}
		s.renamed = false
	}
	if err := s.fault("before write"); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(line, s.synced); err != nil {
		return err
	}
	if err := s.fault("before sync"); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return s.fault("after sync")
}

// cutOff removes what a failed write left behind. After a failed sync the pages behind the synced length may be lost without a further
// error, so they are never trusted: they are cut off and written again.
func (s *Store) cutOff() error {
	s.mu.Lock()
	failing := s.failing
	s.mu.Unlock()
	if failing == nil {
		return nil
	}
	if err := s.fault("before cut"); err != nil {
		return err
	}
	if err := s.file.Truncate(s.synced); err != nil {
		return fmt.Errorf("filestore: %s cannot be written since %q: %w", s.path, failing, err)
	}
	s.mu.Lock()
	s.failing = nil
	s.mu.Unlock()
	return nil
}

// repair writes an empty line if the last write failed, to learn whether the file can be written again.
func (s *Store) repair() error {
	s.mu.Lock()
	failing := s.failing
	s.mu.Unlock()
	if failing == nil {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.append(nil)
}
