// The groups of users, as this machine's programs name them.

package program

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestLookupGroups asks this machine, where root always exists.
func TestLookupGroups(t *testing.T) {
	gid, gids, err := lookupGroups(0)
	if err != nil || gid != 0 || !slices.Contains(gids, 0) {
		t.Errorf("root: group %d, groups %v, %v", gid, gids, err)
	}
	if _, _, err := lookupGroups(4242424242); !errors.Is(err, errNoUser) {
		t.Errorf("a user that is not there: %v", err)
	}
}

// TestLookupGroupsOfFiles: without getent, groups come from /etc/passwd and /etc/group.
func TestLookupGroupsOfFiles(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if gid, gids, err := lookupGroups(0); err != nil || gid != 0 || !slices.Contains(gids, 0) {
		t.Errorf("root: group %d, groups %v, %v", gid, gids, err)
	}
}

// TestLookupGroupsOfDirectory: a directory service's groups count. Programs that fail, or answer
// nonsense or about another user, give no groups.
func TestLookupGroupsOfDirectory(t *testing.T) {
	for _, c := range []struct {
		getent, id string
		gid        uint32
		gids       []uint32
		ok         bool
	}{
		{"echo 'u ser:x:1000:100:U:/:/bin/sh'", `[ "$3" = "u ser" ] && echo "100 7 70000"`, 100, []uint32{100, 7, 70000}, true},
		{"echo '-x:x:1000:100:U:/:/bin/sh'", `[ "$2$3" = "---x" ] && echo 100`, 100, []uint32{100}, true},
		// a user whose name is the number of the user looked up
		{"echo '1000:x:7:7:U:/:/bin/sh'", "echo 0", 0, nil, false},
		{"exit 2", "echo 0", 0, nil, false},
		{"exit 1", "echo 0", 0, nil, false},
		{"echo nonsense", "echo 0", 0, nil, false},
		{"echo ':x:1000:0:::'", "echo 0", 0, nil, false},
		{"echo 'u:x:1000:100::/:'", "exit 1", 0, nil, false},
		{"echo 'u:x:1000:100::/:'", "echo 1 two", 100, nil, false},
		{"echo 'u:x:1000:-1::/:'", "echo 1", 0, nil, false},
	} {
		dir := t.TempDir()
		for name, script := range map[string]string{"getent": c.getent, "id": c.id} {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		}
		t.Setenv("PATH", dir)
		gid, gids, err := lookupGroups(1000)
		if (err == nil) != c.ok || c.ok && (gid != c.gid || !slices.Equal(gids, c.gids)) {
			t.Errorf("getent %q, id %q: group %d, groups %v, %v", c.getent, c.id, gid, gids, err)
		}
	}
}
