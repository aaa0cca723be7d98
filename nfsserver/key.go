// The handles' MAC key, and its file between runs.

package nfsserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// KeySize is the length of a handle key in bytes.
const KeySize = 16

// LoadKey returns the handle key stored in dir. It creates a missing dir (mode 0700) and key
// (0600). Handles are valid as long as the key stays the same. A reader of the key can forge
// handles. So LoadKey fails if it cannot store the key, and refuses a key that another user could
// have read or written. The error describes the repair.
func LoadKey(dir string) (key [KeySize]byte, err error) {
	path := filepath.Join(dir, "handle.key")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return key, fmt.Errorf("handle key: %w: make it a directory of this user", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return key, fmt.Errorf("handle key: %w", err)
	}
	if err := checkPrivate(dir, info, 0o022, "written to"); err != nil {
		return key, err
	}
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	rand.Read(key[:])
	if err := renameio.WriteFile(path, key[:], 0o600); err != nil {
		return [KeySize]byte{}, fmt.Errorf("handle key: %w: make %s writable for this user", err, dir)
	}
	return key, nil
}

// readKey reads the key from a private regular file.
func readKey(path string) (key [KeySize]byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return key, fmt.Errorf("handle key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return key, fmt.Errorf("handle key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return key, fmt.Errorf("handle key %s is not a regular file: remove it to have a new one made", path)
	}
	if err := checkPrivate(path, info, 0o077, "read"); err != nil {
		return key, err
	}
	b, err := io.ReadAll(io.LimitReader(f, KeySize+1))
	if err != nil {
		return key, fmt.Errorf("handle key: %w", err)
	}
	if len(b) != KeySize {
		return key, fmt.Errorf("handle key %s does not have %d bytes: remove it to have a new one made", path, KeySize)
	}
	return [KeySize]byte(b), nil
}

// checkPrivate refuses another user's file, and a file with permissions in forbidden.
func checkPrivate(path string, info fs.FileInfo, forbidden fs.FileMode, done string) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("handle key: %s belongs to uid %d: remove it, or run as its owner", path, st.Uid)
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return fmt.Errorf("handle key: %s can be %s by other users (mode %04o): chmod it, and remove the key if it is to be a secret again", path, done, mode)
	}
	return nil
}
