// Clocks that are set under a server and a mount: no duration depends on the wall clock.

package changing

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// lock locks a byte of a file, and returns the status.
func (s *server) lock(fh nfs3.FH, caller string, svid int32) nlm4.Status {
	s.Helper()
	var res nlm4.Res
	args := nlm4.LockArgs{Exclusive: true, Lock: nlm4.Lock{Caller: []byte(caller), FH: fh.Bytes(), Owner: []byte(caller), Svid: svid, Offset: uint64(svid), Length: 1}}
	if err := s.client.CallLockManager(context.Background(), nlm4.ProcLock, &args, &res); err != nil {
		s.Fatal(err)
	}
	return res.Status
}

// TestClockSetUnderServer: the grace period, and entries in the reply cache, keep their durations
// when the clock is set by an hour.
func TestClockSetUnderServer(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			state, dir := t.TempDir(), t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
			must.Succeed(t, os.WriteFile(filepath.Join(state, "locks.json"), []byte(`{"State":5,"Clients":[{"Addr":"127.0.0.1","UID":-1,"Name":"b2xk"}]}`), 0o600))
			s := start(t, "", state, dir)
			tree, err := s.mount(dir)
			must.Succeed(t, err)
			f, err := s.client.Lookup(t.Context(), tree.Root(), "f")
			must.Succeed(t, err)
			p := peer.DialTCP(t, s.addr)
			defer p.C.Close()
			call := peer.NFS(peer.XID(), nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: tree.Root(), Name: []byte("d")}})
			makeDir := func(when string) {
				t.Helper()
				p.Message(call)
				if _, d := p.Want(when); nfs3.Status(d.Uint32()) != nfs3.OK {
					t.Errorf("MKDIR %s failed, want the reply that was kept", when)
				}
			}
			makeDir("before")
			s.clk.set(t, by, 0)
			makeDir("again after the clock was set")
			if got := s.lock(f.FH, "new", 1); got != nlm4.DeniedGracePeriod {
				t.Errorf("a new lock in grace: %v, want %v", got, nlm4.DeniedGracePeriod)
			}
			s.clk.set(t, by, 2*time.Minute)
			if got := s.lock(f.FH, "new", 1); got != nlm4.Granted {
				t.Errorf("a new lock after grace: %v, want %v", got, nlm4.Granted)
			}
			if err := tree.Chtimes(t.Context(), "f", time.Time{}, time.Now()); err != nil {
				t.Errorf("Chtimes: %v", err)
			}
			s.mustWrite(dir, "g")
		})
	}
}

// TestClockSetUnderMount: when the clock is set by an hour, cached attributes still expire, locks
// are granted, and files are written.
func TestClockSetUnderMount(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "f")
			must.Succeed(t, os.WriteFile(file, nil, 0o666))
			s := start(t, "", t.TempDir(), dir)
			m := s.mountAt("127.0.0.1", dir, "actimeo=1")
			at := filepath.Join(m.dir, "f")
			if st, err := os.Stat(at); err != nil || st.Size() != 0 {
				t.Fatalf("%v, %v", st, err)
			}
			m.clk.set(t, by, 0)
			must.Succeed(t, os.WriteFile(file, []byte("changed"), 0o666))
			s.await("change of the cached size", func() bool { st, err := os.Stat(at); return err == nil && st.Size() == int64(len("changed")) })
			f, err := os.OpenFile(at, os.O_RDWR, 0)
			must.Succeed(t, err)
			defer f.Close()
			must.Succeed(t, flock(f))
			_, err = f.WriteString("written")
			must.Succeed(t, err, f.Sync())
			if b, err := os.ReadFile(file); err != nil || string(b) != "written" {
				t.Errorf("on the server is %q, %v, want %q", b, err, "written")
			}
		})
	}
}

// wallClock lists the files with a decision or a message that needs the wall clock, and the reason.
var wallClock = map[string]string{
	"cmd/nfsrdmad/program/page.go":    "the page says when the server was started",
	"nfsclient/fusefs/setattr.go":     "times of files",
	"nfsclient/fusefs/suspend.go":     "the kernel reports clocks that were set",
	"nfsclient/nlm/record.go":         "a number that is larger than that of the last start, for a file that was lost",
	"nfsserver/attr.go":               "times of files",
	"nfsserver/juicefs/commits.go":    "times of files",
	"nfsserver/juicefs/file.go":       "times of files",
	"nfsserver/juicefs/listing.go":    "the time of a directory and that of a listing: a directory with a time ahead is listed again",
	"nfsserver/juicefs/names.go":      "the time of a directory that lies ahead is set back, as JuiceFS leaves it",
	"nfsserver/juicefs/records.go":    "several servers of a volume identify one another's calls by it",
	"nfsserver/juicefs/repeats.go":    "several servers of a volume identify one another's calls by it",
	"nfsserver/nlm/monitor.go":        "a number that is larger than that of the last start, for a file that was lost",
	"nfsserver/osfs/read.go":          "the time of access, as the kernel compares it: one that is wrong costs a thread",
	"transport/portmap/programs.go":   "GETTIME says it",
	"rnic/iwarp/link.go":              "a deadline that has passed, by any clock",
	"transport/gss/client.go":         "the end of a context is that of its ticket, by the wall",
	"transport/gss/table.go":          "a clock that is set ahead ends idle contexts early, and their clients make new ones",
	"transport/constants.go":          "a deadline that has passed, by any clock",
	"cmd/nfsrdmad/program/clients.go": "when a certificate expires",
	"transport/gss/krb5/ccache.go":    "times of tickets",
	"transport/gss/krb5/keytab.go":    "times of keys",
	"transport/gss/krb5/kdcnet.go":    "a deadline that has passed, by any clock",
	"xdr/nfs3/attr.go":                "times of files",
	"cmd/internal/mounter/log.go":     "times of lines",
	"cmd/internal/control/client.go":  "a deadline that has passed, by any clock",
	"cmd/nfsrdmad/program/reload.go":  "systemd requires CLOCK_MONOTONIC",

	"nfsserver/adapters/internal/tree/attr.go": "times of files",

	"nfsserver/osfs/internal/inodegen/cache.go": "the time of a file: one that is set back costs a look-up, and the clock that is set back a stale handle",
}

// TestWallClock: only the files of wallClock compare by the wall clock.
func TestWallClock(t *testing.T) {
	uses := regexp.MustCompile(`\.Unix(Nano|Milli|Micro)?\(|time\.Unix(Milli|Micro)?\(|CLOCK_|\.Round\(0\)|time\.RFC3339`)
	found := sourcesWith(t, uses)
	for file := range found {
		if wallClock[file] == "" {
			t.Errorf("%s uses the clock of the wall, which may be set: compare times of time.Now, or say here why not", file)
		}
	}
	for file := range wallClock {
		if !found[file] {
			t.Errorf("%s does not use the clock of the wall, and is in the list", file)
		}
	}
}

// sourcesWith returns the files of servers and mounts in which a line other than a comment matches.
func sourcesWith(t *testing.T, pattern *regexp.Regexp) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	for _, dir := range []string{"xdr", "chunks", "rnic", "rpcrdma", "transport", "nfsclient", "nfsserver", "posixacl", "cmd/nfsrdmad", "cmd/nfsrdmad-juicefs",
		"cmd/internal/audit", "cmd/internal/control", "cmd/internal/mountctl", "cmd/internal/mounter", "cmd/internal/session"} {
		must.Succeed(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(name, "fstest/") ||
				strings.Contains(name, "rnictest/") || strings.Contains(name, "xdrtest/") || strings.Contains(name, "juicefstest/") {
				return err
			}
			b, err := os.ReadFile(path)
			for line := range strings.Lines(string(b)) {
				code, _, _ := strings.Cut(line, "//")
				if pattern.MatchString(code) {
					found[name] = true
				}
			}
			return err
		}))
	}
	return found
}
