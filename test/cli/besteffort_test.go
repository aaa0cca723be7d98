// Attributes that a server refuses: the messages and the status of cp and mv. A move succeeds all
// the same.

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestMoveToASquashedExport: root is squashed there, and cannot give files away. As with mv(1),
// which preserves attributes as far as possible, each failure has one line, the status is 0, and
// the source is removed.
func TestMoveToASquashedExport(t *testing.T) {
	machine.NeedRoot(t, "only root is squashed")
	r := newKillRig(t)
	served := filepath.Join(rig.base, "squashed")
	script(t, "mkdir "+served+"; chmod 777 "+served)
	t.Cleanup(func() { removeAll(served) })
	srv, err := startSquashed(served)
	if err != nil {
		t.Fatalf("startSquashed: %v", err)
	}
	defer srv.stop()
	for _, c := range []struct {
		name, setup string
		lines       int // of standard error
	}{
		{"file", "printf content > file; chmod 640 file; touch -d 2001-02-03 file", 1},
		{"link", "ln -s file link", 1},
		{"fifo", "mkfifo fifo", 1},
		{"tree", "mkdir tree tree/d; printf a > tree/a; printf b > tree/d/b", 4},
		{"old", "printf old > old; touch -d 1960-01-02 old", 2},
	} {
		script(t, "cd "+r.local+"; "+c.setup)
		want, err := readTree(r.local)
		if err != nil {
			t.Fatalf("readTree: %v", err)
		}
		p := start(t, "mv", r.local+"/"+c.name, srv.url+"/"+c.name)
		if !p.end(t) {
			t.Errorf("%s: %v", c.name, p.cmd.ProcessState)
		}
		if got := strings.Count(p.stderr.String(), "\n"); got != c.lines {
			t.Errorf("%s: %d lines, want %d: %s", c.name, got, c.lines, p.stderr)
		}
		if left, err := os.ReadDir(r.local); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", c.name, left, err)
		}
		got, err := readTree(served)
		if err != nil {
			t.Fatalf("readTree: %v", err)
		}
		for name := range want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s: %s is not there", c.name, name)
			}
		}
		p.checkLeft(t, served, false)
	}
	if fi, err := os.Stat(served + "/file"); err != nil || fi.Mode() != 0o640 || fi.ModTime().UTC().Format("2006-01-02") != "2001-02-03" {
		t.Errorf("%v, %v; want mode and time of the source", fi, err)
	}
}

// TestTimesThatTheProtocolCannotSay: NFS version 3 can express times from 1970 to 2106. cp -a and
// cp -p fail only for other times, as after a failed utimensat(2). mv reports the times, and still
// moves the file.
func TestTimesThatTheProtocolCannotSay(t *testing.T) {
	r := newKillRig(t)
	for date, nearest := range map[string]string{"1960-01-02": "1970-01-01", "2200-01-02": "2106-02-07"} {
		for _, c := range []struct {
			args []string
			ok   bool
		}{{[]string{"cp", "-a"}, false}, {[]string{"cp", "-p"}, false}, {[]string{"mv"}, true}, {[]string{"cp"}, true}} {
			script(t, "printf content > "+r.local+"/f; touch -d "+date+" "+r.local+"/f")
			p := start(t, append(c.args, r.local+"/f", r.url+"/f")...)
			if ok := p.end(t); ok != c.ok {
				t.Errorf("%v, %s: %v: %s", c.args, date, p.cmd.ProcessState, p.stderr)
			}
			checkFile(t, r.served+"/f", []byte("content"))
			said := strings.Count(p.stderr.String(), "preserving times for")
			if lines := strings.Count(p.stderr.String(), "\n"); len(c.args) == 1 && c.args[0] == "cp" {
				if lines != 0 {
					t.Errorf("%v, %s: %s", c.args, date, p.stderr)
				}
			} else if said != 1 || lines != 1 {
				t.Errorf("%v, %s: %d lines, %d of them of the times, want one: %s", c.args, date, lines, said, p.stderr)
			} else if fi, err := os.Stat(r.served + "/f"); err != nil || fi.ModTime().UTC().Format("2006-01-02") != nearest {
				t.Errorf("%v, %s: %v, %v; want %s", c.args, date, fi, err, nearest)
			}
			script(t, "rm -f "+r.local+"/f "+r.served+"/f")
		}
	}
}

// startSquashed serves a directory, with root mapped to the anonymous user.
func startSquashed(dir string) (*server, error) {
	return startServer(dir, "--no-root-squash=false")
}

// script runs lines of sh; each must succeed.
func script(t *testing.T, lines string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", lines).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", lines, err, out)
	}
}
