package filestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// recover opens the file, reads it, and cuts off an incomplete last line.
func (s *Store) recover() error {
	if err := os.Remove(s.path + compactSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := s.prepare(file); err != nil {
		return errors.Join(err, file.Close())
	}
	s.file = file
	s.index.expire(s.limits, s.now())
	s.compactAt = compactMin
	s.compactIfWorthwhile()
	return nil
}

func (s *Store) prepare(file *os.File) error {
	length, err := s.replay(file)
	if err != nil {
		return err
	}
	state, err := file.Stat()
	if err != nil {
		return err
	}
	if cut := state.Size() - length; cut > 0 {
		s.logger.Warn("the last write to the dedupe file is incomplete and was cut off; its answer had not been sent", "file", s.path, "bytes", cut)
		if err := file.Truncate(length); err != nil {
			return err
		}
	}
	if length == 0 {
		if _, err := file.WriteAt([]byte(header), 0); err != nil {
			return err
		}
		length = int64(len(header))
	}
	s.synced = length
	return errors.Join(file.Sync(), syncFolderOf(s.path))
}

// replay reads the lines into the index and returns the length of the part that counts. Only the last line may be incomplete: a write
// starts after the sync of the one before. Anything else is damage, and not repaired here: answers behind it would be lost in silence.
func (s *Store) replay(file io.Reader) (int64, error) {
	reader := bufio.NewReaderSize(file, 1<<16)
	first, err := reader.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if first != header {
		if err != nil && strings.HasPrefix(header, first) {
			return 0, nil // empty, or a crash while the file was made
		}
		return 0, errors.New("this is not a dedupe file of this version; its first line is wrong")
	}
	length := int64(len(header))
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if err != nil && len(line) == 0 {
			return length, nil
		}
		text, ended := bytes.CutSuffix(line, []byte{'\n'})
		records, entries, ok := decode(text, length)
		if !ok || !ended {
			return length, mustBeIncomplete(reader, text, length)
		}
		for i, one := range records {
			s.index.apply(one, entries[i])
		}
		length += int64(len(line))
	}
}

// mustBeIncomplete returns nil if a crash can have left the line so: nothing follows it.
func mustBeIncomplete(reader *bufio.Reader, line []byte, offset int64) error {
	if _, err := reader.ReadByte(); errors.Is(err, io.EOF) && !beginsWithLine(line) {
		return nil
	}
	return fmt.Errorf("the line at byte %d is damaged, and lines follow it. Restore the file from a copy, or move it away: without it, nodes are called again for keys that it has", offset)
}
