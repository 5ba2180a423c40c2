//go:build !unix

package filestore

// syncFolderOf does nothing: these systems have no sync of a folder.
func syncFolderOf(string) error { return nil }
