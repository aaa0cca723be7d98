// The key of the handles' MAC, and where it lives between two runs.

package nfsserver

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// KeySize is the length of a handle key in octets.
const KeySize = 16

// LoadKey returns the handle key kept in dir, making dir and key when there are
// none. Handles live as long as the key does. When dir cannot be written the key
// is derived from the machine's id and salt, so that handles survive a restart
// all the same; such a key is no secret to other users of the machine, and err
// says why it was taken.
func LoadKey(dir, salt string) (key [KeySize]byte, err error) {
	path := filepath.Join(dir, "handle.key")
	b, err := os.ReadFile(path)
	switch {
	case err == nil && len(b) == KeySize:
		return [KeySize]byte(b), nil
	case err == nil:
		return derivedKey(salt), fmt.Errorf("handle key %s has %d octets, not %d: remove it to have a new one made", path, len(b), KeySize)
	case !errors.Is(err, fs.ErrNotExist):
		return derivedKey(salt), fmt.Errorf("handle key: %w", err)
	}
	rand.Read(key[:])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return derivedKey(salt), fmt.Errorf("handle key: %w", err)
	}
	if err := renameio.WriteFile(path, key[:], 0o600); err != nil {
		return derivedKey(salt), fmt.Errorf("handle key: %w", err)
	}
	return key, nil
}

// derivedKey is a key that is the same each time on this machine.
func derivedKey(salt string) [KeySize]byte {
	id, _ := os.ReadFile("/etc/machine-id")
	if len(id) == 0 {
		host, _ := os.Hostname()
		id = []byte(host)
	}
	sum := sha256.Sum256([]byte("nfsrdma handle key\x00" + strings.TrimSpace(string(id)) + "\x00" + salt))
	return [KeySize]byte(sum[:KeySize])
}
