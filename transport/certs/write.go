// Writing files whole, without destroying others.

package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// writePair writes a private key and its certificate, or neither.
func writePair(keyFile, certFile string, key, cert []byte, replace bool) error {
	if !replace {
		// Both names must be free before the first file is written.
		for _, file := range []string{keyFile, certFile} {
			if _, err := os.Lstat(file); err == nil {
				return existsError(file)
			}
		}
	}
	if err := write(keyFile, key, 0o600, replace); err != nil {
		return err
	}
	if err := write(certFile, cert, 0o644, replace); err != nil {
		if !replace {
			_ = os.Remove(keyFile) // of no use without its certificate
		}
		return err
	}
	return nil
}

func existsError(file string) error {
	return fmt.Errorf("%s exists: name another, move it away, or add --force to replace it", file)
}

// write writes a file in one step: after a crash it is there whole, or not at all. Without replace
// an existing file is an error.
func write(file string, b []byte, mode fs.FileMode, replace bool) error {
	if replace {
		if err := renameio.WriteFile(file, b, mode, renameio.IgnoreUmask()); err != nil {
			return fmt.Errorf("cannot write %s: %w: make its directory writable", file, err)
		}
		return nil
	}
	t, err := renameio.NewPendingFile(file, renameio.WithPermissions(mode), renameio.IgnoreUmask(), renameio.WithTempDir(filepath.Dir(file)))
	if err != nil {
		return fmt.Errorf("cannot write %s: %w: make its directory writable", file, err)
	}
	defer t.Cleanup()
	_, err = t.Write(b)
	if err == nil {
		err = t.Sync()
	}
	if err == nil {
		err = os.Link(t.Name(), file) // fails if the name exists
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return existsError(file)
	case err != nil:
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	return nil
}
