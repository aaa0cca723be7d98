// Semantics that programs rely on: POSIX errors, the same results as a local directory, every byte
// in a file, and how two mounts see each other.

package mount

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestPosix: the cases hold on a local directory, which shows that they are POSIX's and Linux's,
// and on each mount.
func TestPosix(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		machine.NeedRoot(t, "the cases change users, which wants root")
		mustWork(t, "posix", tempDir(t, "local"))
	})
	eachMount(t, func(t *testing.T, _ *server, dir, _ string) {
		out := mustWork(t, "posix", inside(t, dir, "posix-"+filepath.Base(dir)))
		if n := cases(out); n < 150 {
			t.Errorf("%d cases", n)
		}
	})
}

// cases returns the number of cases in a worker's output.
func cases(out string) (n int) {
	for line := range strings.Lines(out) {
		if _, err := fmt.Sscanf(line, "%d cases", &n); err == nil {
			return n
		}
	}
	return 0
}

// TestModel: the same random operations have the same results as on a local directory, and another
// mount of the export then shows the same tree. A full run has 100,000 operations on each mount.
func TestModel(t *testing.T) {
	count := strconv.Itoa(scaled(1500, 100_000))
	t.Run("local", func(t *testing.T) {
		mustWork(t, "model", seed(t), count, tempDir(t, "a"), tempDir(t, "b"))
	})
	eachMount(t, func(t *testing.T, s *server, dir, export string) {
		local := tempDir(t, "local")
		name := "model-" + filepath.Base(dir)
		mustWork(t, "model", seed(t), count, inside(t, dir, name), local)
		other := s.mount(t, "tcp", export)
		mustWork(t, "same", filepath.Join(other, name), local)
	})
}

// TestBytes: every byte read is the byte written last, however both are done. A full run has
// 1,000,000 operations: 62,500 in each of four ways on each of four mounts.
func TestBytes(t *testing.T) {
	ways := []string{"buffered", "mmap", "direct", "sync"}
	count := strconv.Itoa(scaled(400, 62_500))
	t.Run("local", func(t *testing.T) {
		for _, how := range []string{"buffered", "mmap"} {
			mustWork(t, "bytes", seed(t), count, how, filepath.Join(tempDir(t, "local"), how))
		}
	})
	eachMount(t, func(t *testing.T, _ *server, dir, _ string) {
		for _, how := range ways {
			mustWork(t, "bytes", seed(t), count, how, filepath.Join(dir, "bytes-"+how+filepath.Base(dir)))
		}
	})
}

// TestCloseToOpen: a mount that opens a file sees all data written before another mount closed it,
// over either transport.
func TestCloseToOpen(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	for _, export := range []string{"/export", "/memory"} {
		t.Run(export[1:], func(t *testing.T) {
			a, b := s.mount(t, "rdma", export), s.mount(t, "tcp", export)
			// The names are there before either looks, so that no negative entry is in the way.
			script(t, a, "touch f0 f1 f2")
			mustWork(t, "cto", a, b, strconv.Itoa(scaled(300, 10000)), seed(t))
		})
	}
}

// TestAppenders: sixty-four programs append to one file. Each line arrives whole, and once.
func TestAppenders(t *testing.T) {
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		appenders(t, filepath.Join(dir, "log-"+filepath.Base(dir)), scaled(20, 1000))
	})
}

// TestTwoUsers: each of two users of one mount has his own rights and supplementary groups.
func TestTwoUsers(t *testing.T) {
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		d := inside(t, dir, "users-"+filepath.Base(dir))
		script(t, d, "echo a > private; chown 4242:4242 private; chmod 600 private; echo g > group; chown 0:4444 group; chmod 640 group")
		as := func(uid uint32, groups []uint32, file string, want int) {
			t.Helper()
			out, code := command(t, "", credential(uid, groups), "cat", filepath.Join(d, file))
			if (code == 0) != (want == 0) {
				t.Errorf("user %d, groups %d, %s: status %d, %s", uid, groups, file, code, out)
			}
		}
		as(userID, nil, "private", 0)
		as(otherID, nil, "private", 1)
		as(userID, nil, "group", 1)
		as(userID, []uint32{groupID}, "group", 0)
		as(otherID, nil, "group", 1)
		as(otherID, []uint32{1, 2, groupID}, "group", 0)
		as(userID, nil, "private", 0) // again: the cache has kept the users apart
		as(otherID, nil, "private", 1)
	})
}
