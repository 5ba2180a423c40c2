//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile locks a file for this process. The lock ends with the process, however it ends. The file is never removed: a process that
// had opened it before would lock a file that no other process finds.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(file); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another process or store has the file open; every node server needs a file of its own")
		}
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
