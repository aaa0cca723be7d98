// The file with the handle key, and keys that are refused because they are not secret.

package nfsserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

type aKey = [nfsserver.KeySize]byte

// TestLoadKey: LoadKey makes one key, and stores it so that other users cannot read it.
func TestLoadKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := nfsserver.LoadKey(dir)
	if err != nil || first == (aKey{}) {
		t.Fatalf("%x, %v", first, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, filepath.Join(dir, "handle.key"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %04o", path, info.Mode(), err, want)
		}
	}
	if again, err := nfsserver.LoadKey(dir); err != nil || again != first {
		t.Errorf("again: %x, %v", again, err)
	}
	if other, err := nfsserver.LoadKey(t.TempDir()); err != nil || other == first {
		t.Errorf("elsewhere: %x, %v", other, err)
	}
}

// TestKeysThatAreNoSecret: each of these keys is refused, with the path and advice in one line.
func TestKeysThatAreNoSecret(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir, key string) error
		want  string
	}{
		"read by the group":      {func(t *testing.T, dir, key string) error { return os.Chmod(key, 0o640) }, "can be read"},
		"read by others":         {func(t *testing.T, dir, key string) error { return os.Chmod(key, 0o604) }, "can be read"},
		"written by others":      {func(t *testing.T, dir, key string) error { return os.Chmod(key, 0o602) }, "can be read"},
		"directory of the group": {func(t *testing.T, dir, key string) error { return os.Chmod(dir, 0o720) }, "can be written to"},
		"directory of all":       {func(t *testing.T, dir, key string) error { return os.Chmod(dir, 0o702|os.ModeSticky) }, "can be written to"},
		"short":                  {func(t *testing.T, dir, key string) error { return os.Truncate(key, 15) }, "remove it"},
		"long":                   {func(t *testing.T, dir, key string) error { return os.Truncate(key, 17) }, "remove it"},
		"empty":                  {func(t *testing.T, dir, key string) error { return os.Truncate(key, 0) }, "remove it"},
		"another's": {func(t *testing.T, dir, key string) error {
			machine.NeedRoot(t, "runs processes of several users: needs root")
			return os.Chown(key, 1000, 0)
		}, "belongs to uid 1000"},
		"in another's directory": {func(t *testing.T, dir, key string) error {
			machine.NeedRoot(t, "runs processes of several users: needs root")
			return os.Chown(dir, 1000, 0)
		}, "belongs to uid 1000"},
		"a symbolic link": {func(t *testing.T, dir, key string) error { os.Rename(key, key+"2"); return os.Symlink(key+"2", key) }, key0},
		"a FIFO":          {func(t *testing.T, dir, key string) error { os.Remove(key); return syscall.Mkfifo(key, 0o600) }, "regular file"},
		"directory that is a file": {func(t *testing.T, dir, key string) error {
			os.RemoveAll(dir)
			return os.WriteFile(dir, nil, 0o600)
		}, "make it a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			path := filepath.Join(dir, key0)
			if _, err := nfsserver.LoadKey(dir); err != nil {
				t.Fatalf("nfsserver.LoadKey: %v", err)
			}
			if err := c.spoil(t, dir, path); err != nil {
				t.Fatalf("spoil: %v", err)
			}
			key, err := nfsserver.LoadKey(dir)
			if err == nil || key != (aKey{}) {
				t.Fatalf("key %x, error %v, want no key and an error", key, err)
			}
			for _, part := range []string{c.want, dir} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q, want one with %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line", err)
			}
		})
	}
}

// key0 is the name of the key's file.
const key0 = "handle.key"
