// Tests of the commands, by running the whole program.

package main

import (
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestFileCommands(t *testing.T) {
	both(t, func(t *testing.T, base string) {
		d := base + "/mem/" + t.Name()
		local := filepath.Join(t.TempDir(), "f")
		must.Succeed(t, os.WriteFile(local, []byte("hello\n"), 0o640))
		nfs(t, "mkdir", "-p", d+"/a/b")
		nfs(t, "cp", "-q", local, d+"/a")
		if out := nfs(t, "cat", d+"/a/f", d+"/a/f"); out != "hello\nhello\n" {
			t.Errorf("cat: %q", out)
		}
		nfs(t, "mv", d+"/a/f", d+"/a/b")
		nfs(t, "ln", d+"/a/b/f", d+"/a/hard")
		nfs(t, "ln", "-s", "b/f", d+"/a/soft")
		if out := nfs(t, "ls", d+"/a"); out != "b\nhard\nsoft\n" {
			t.Errorf("ls: %q", out)
		}
		out := nfs(t, "ls", "-l", d+"/a")
		if lines := strings.Split(out, "\n"); len(lines) != 5 || !strings.Contains(lines[3], "soft -> b/f") ||
			!strings.Contains(lines[2], "-rw-r----- 2") {
			t.Errorf("ls -l:\n%s", out)
		}
		out = nfs(t, "stat", "-L", d+"/a/soft")
		if !strings.Contains(out, "Size: 6 ") || !strings.Contains(out, "Access: (0640/-rw-r-----)") || !strings.Contains(out, "Links: 2") {
			t.Errorf("stat:\n%s", out)
		}
		for _, args := range [][]string{{"stat", d + "/a/soft"}, {"stat", "-P", d + "/a/soft"}} {
			if out = nfs(t, args...); !strings.Contains(out, "symbolic link") || !strings.Contains(out, "/a/soft -> b/f\n") {
				t.Errorf("%s:\n%s", args, out)
			}
		}
		nfs(t, "rm", d+"/a/hard", d+"/a/soft")
		nfs(t, "rm", "-r", d+"/a")
		nfs(t, "rm", "-f", d+"/a")
		if out = nfs(t, "ls", d); out != "" {
			t.Errorf("after rm -r: %q", out)
		}
	})
}

func TestServerCommands(t *testing.T) {
	both(t, func(t *testing.T, base string) {
		if out := nfs(t, "showmount", base); out != "/mem  everyone\n/dir  everyone\n" {
			t.Errorf("showmount: %q", out)
		}
		if out := nfs(t, "ping", "-c", "20", "-i", "0", base); strings.Count(out, "NULL from") != 20 ||
			!strings.Contains(out, "20 round trips: min ") || !strings.Contains(out, "p99") {
			t.Errorf("ping:\n%s", out)
		}
		if out := nfs(t, "df", base+"/mem", base+"/dir"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "/dir") {
			t.Errorf("df:\n%s", out)
		}
	})
}

// sampleTree makes a tree with every kind of object that a copy keeps.
func sampleTree(t *testing.T) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "src")
	when := time.Date(2011, 12, 13, 14, 15, 16, 123456789, time.UTC)
	noise := rand.NewChaCha8([32]byte{1})
	write := func(name string, n int, mode fs.FileMode) {
		name = filepath.Join(top, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		b := make([]byte, n)
		_, _ = noise.Read(b)
		must.Succeed(t, os.WriteFile(name, b, 0o600))
		must.Succeed(t, os.Chmod(name, mode))
		when = when.Add(time.Hour + 7)
		must.Succeed(t, os.Chtimes(name, when, when))
	}
	for _, n := range []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 1} {
		write("sizes/"+strings.Repeat("n", n%7+1)+"-"+string(rune('a'+n%26))+time.Duration(n).String(), n, 0o644)
	}
	for i := range 60 {
		write("deep/"+strings.Repeat("d/", i%6)+"f"+time.Duration(i).String(), i*3, fs.FileMode(0o400|i%0o100))
	}
	for link, target := range map[string]string{"abs": "/etc/hosts", "dangling": "no/where", "deep/rel": "../sizes", "weird name\n": "x"} {
		must.Succeed(t, os.Symlink(target, filepath.Join(top, link)))
	}
	must.Succeed(t, os.Mkdir(filepath.Join(top, "empty"), 0o711))
	must.Succeed(t, os.Chmod(filepath.Join(top, "deep"), 0o750|fs.ModeSticky))
	for _, d := range []string{"empty", "deep/d", "deep", "sizes", "."} {
		when = when.Add(time.Hour + 7)
		must.Succeed(t, os.Chtimes(filepath.Join(top, d), when, when))
	}
	return top
}

// TestCopyTree copies a tree in, from one export to the other, and out again. With -a names, types,
// modes, times and content are the same, also when the targets exist.
func TestCopyTree(t *testing.T) {
	src := sampleTree(t)
	want, err := treeSum(os.DirFS(src))
	if err != nil {
		t.Fatalf("treeSum: %v", err)
	}
	both(t, func(t *testing.T, base string) {
		back := filepath.Join(t.TempDir(), "back")
		for round := range 2 {
			name := strings.ReplaceAll(t.Name(), "/", "-")
			// in the second round the target is the parent
			target := func(base, top string) string {
				if round == 0 {
					return base + "/" + top
				}
				return base
			}
			nfs(t, "cp", "-q", "-a", src, target(base+"/mem", name))
			nfs(t, "cp", "-q", "-a", base+"/mem/"+name, target(base+"/dir", name))
			if round == 0 {
				nfs(t, "cp", "-q", "-a", base+"/dir/"+name, back)
			} else {
				nfs(t, "cp", "-q", "-a", base+"/dir/"+name, filepath.Dir(back))
				back = filepath.Join(filepath.Dir(back), name)
				nfs(t, "rm", "-r", base+"/mem/src")
			}
			got, err := treeSum(os.DirFS(back))
			if err != nil {
				t.Fatalf("treeSum: %v", err)
			}
			if got != want {
				t.Fatalf("round %d: the tree that came back differs", round)
			}
		}
	})
}

func TestCopyRefuses(t *testing.T) {
	_, base := serve(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(file, []byte("x"), 0o600))
	nfs(t, "mkdir", base+"/mem/d")
	for _, args := range [][]string{
		{"cp", base + "/mem/no", dir},
		{"cp", base + "/mem/d", dir},                     // a directory without -r
		{"cp", file, base + "/mem/d", base + "/mem/new"}, // two sources, one name
		{"cp", file, base + "/mem/no/dir/f"},
		{"cp", file, "nfs://127.0.0.1:1/x"},
		{"cp", "--proto", "udp", file, base + "/mem"},
		{"ls", "/local/path"},
		{"rm", base + "/mem"},
		{"rm", base + "/mem/no"},
		{"cat", base + "/mem/d"},
		{"bench", "--size", "-1", base + "/mem"},
		{"bench", "--tests", "nonsense", base + "/mem"},
		{"ping", "--crc", "maybe", "h"},
		{"nonsense"},
	} {
		_, errOut, code := try(t, args...)
		if code == 0 || strings.Count(errOut, "\n") != 1 || !strings.HasPrefix(errOut, "nfsrdma: ") {
			t.Errorf("nfsrdma %s: exit code %d, %q; want one line", strings.Join(args, " "), code, errOut)
		}
	}
}

func TestBench(t *testing.T) {
	both(t, func(t *testing.T, base string) {
		out := nfs(t, "bench", "--json", "--duration", "20ms", "--size", "4M", "--depth", "3", base+"/dir")
		var r bench.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if len(r.Tests) != len(bench.Tests) || r.Raw == nil || r.Raw.StreamMiBs <= 0 || r.Verified < 4<<20 {
			t.Errorf("report: %s", out)
		}
		for _, x := range r.Tests {
			if x.Calls == 0 || x.AvgUs <= 0 || (x.Bytes > 0) != (x.MiBs > 0) {
				t.Errorf("%s: %+v", x.Name, x)
			}
		}
		if out := nfs(t, "bench", "--duration", "5ms", "--no-raw", "--tests", "null,getattr,lookup", base+"/mem"); !strings.Contains(out, "GETATTR") || !strings.Contains(out, "LOOKUP") {
			t.Errorf("table:\n%s", out)
		}
		if out := nfs(t, "ls", base+"/dir"); out != "" {
			t.Errorf("left behind: %s", out)
		}
	})
}

func TestHelpHasExamples(t *testing.T) {
	for _, c := range newRoot(&session.Session{}).Commands() {
		if !c.Hidden && (c.Example == "" || c.Short == "") {
			t.Errorf("%s has no example or no description", c.Name())
		}
	}
	if out := nfs(t, "completion", "bash"); !strings.Contains(out, "nfsrdma") {
		t.Error("no shell completion")
	}
}

// TestBenchReportsTheCRCInUse: bench reports the actual mode, if the server requires another mode
// than requested.
func TestBenchReportsTheCRCInUse(t *testing.T) {
	rdma, _ := serve(t)
	for asked, want := range map[string]string{"on": "on", "auto": "on", "off": "on"} {
		var r bench.Report
		out := nfs(t, "bench", "--json", "--crc", asked, "--tests", "null", "--duration", "1ms", "--no-raw", rdma+"/dir")
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if r.CRC != want {
			t.Errorf("--crc %s at a server that requires CRCs: %q, want %q", asked, r.CRC, want)
		}
	}
}
