// The files that a purge removes, without a system for it.

package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPurge: the script removes the server's own files, and leaves a user's volume beside them.
func TestPurge(t *testing.T) {
	script, err := os.ReadFile("../../deploy/packages/server.postrm")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	root := t.TempDir()
	text := strings.NewReplacer("@STATE@", "state", " /var/", " "+root+"/var/", " /etc/", " "+root+"/etc/", "/run/systemd/system", root+"/run",
		"command -v deb-systemd-helper", "false").Replace(string(script))
	for _, other := range []string{" /var", " /etc", " /run"} {
		if strings.Contains(text, other) {
			t.Fatalf("the script has %s, which is this machine's", other)
		}
	}
	var gone, kept []string
	for name, list := range map[string]*[]string{
		"var/lib/state/handle.key": &gone, "var/lib/state/locks.json": &gone, "var/log/state/audit.log": &gone, "var/cache/state/raw/block": &gone,
		"var/lib/state/volume/meta/MANIFEST": &kept, "var/lib/other/file": &kept, "etc/nfsrdma/exports": &kept,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		*list = append(*list, path)
	}
	for range 2 { // dpkg runs it again after a failure
		must(t, root, "sh", "-c", text, "postrm", "purge")
	}
	for _, path := range gone {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a purge removes what is not the server's: %v", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(root, "var/lib/state/volume")); err != nil {
		t.Fatalf("os.RemoveAll: %v", err)
	}
	must(t, root, "sh", "-c", text, "postrm", "purge")
	if _, err := os.Stat(filepath.Join(root, "var/lib/state")); !os.IsNotExist(err) {
		t.Errorf("the empty directory is left: %v", err)
	}
}
