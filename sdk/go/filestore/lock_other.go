//go:build !windows && !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package filestore

import (
	"errors"
	"os"
)

// lockFile refuses: without a lock two processes could write to one file.
func lockFile(string) (*os.File, error) {
	return nil, errors.New("this system has no file lock that the store can use; use another DedupeStore")
}
