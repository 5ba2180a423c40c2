package filestore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

const errorSharingViolation syscall.Errno = 32

// lockFile opens a file that no other process can open at the same time. It is closed with the process, however that ends.
func lockFile(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const shareNothing = 0
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, shareNothing, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		err = errors.New("another process or store has the file open; every node server needs a file of its own")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return os.NewFile(uintptr(handle), path), nil
}
