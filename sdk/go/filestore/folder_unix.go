//go:build unix

package filestore

import (
	"errors"
	"os"
	"path/filepath"
)

// syncFolderOf makes the name of a new or renamed file durable.
func syncFolderOf(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
