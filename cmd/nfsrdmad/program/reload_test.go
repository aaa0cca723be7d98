// The exports file: served, checked, and reloaded.

package program

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// put writes a file.
func put(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o644))
}

// awaitControl waits for a server's control socket, which appears after the ports are open.
func awaitControl(t *testing.T, socket string) {
	t.Helper()
	for range 3000 {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("nobody listens at " + socket)
}

// dialServe connects to a server that is still starting.
func dialServe(t *testing.T, addr string) *nfsclient.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		c, err := nfsclient.Dial(ctx, addr, nfsclient.Options{Transport: nfsclient.TCP})
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// serveUntilEnd runs the command serve until the test ends.
func serveUntilEnd(t *testing.T, args ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := run(ctx, append([]string{"serve", "--rdma-port", "0", "--rpcbind", "off", "--log-level", "panic"}, args...)...)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("at its end: %v", err)
		}
	})
}

// TestServeExportsFile: a file's exports are served. Reload and SIGHUP apply a changed file, but no
// invalid file. Handles of removed exports are stale.
func TestServeExportsFile(t *testing.T) {
	dir := t.TempDir()
	file, socket, tcp := filepath.Join(dir, "exports"), filepath.Join(dir, "run", "control"), freePort(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b b")
	for _, d := range []string{a, b} {
		must.Succeed(t, os.Mkdir(d, 0o777))
		put(t, filepath.Join(d, "f"), "data")
	}
	both := a + " 127.0.0.1(ro,insecure)\n\"" + b + "\" *(rw,insecure)\n"
	put(t, file, both)
	serveUntilEnd(t, "--exports", file, "--control", socket, "--state-dir", filepath.Join(dir, "state"), "--tcp-port", tcp)
	c := dialServe(t, "127.0.0.1:"+tcp)
	awaitControl(t, socket)
	tree := func(path string) *nfsclient.FS {
		t.Helper()
		m, err := c.Mount(context.Background(), path)
		if err != nil {
			t.Fatalf("Mount: %v", err)
		}
		return m
	}
	ta, tb := tree(a), tree(b)
	write := func(f *nfsclient.FS) error { return f.WriteFile(context.Background(), "f", []byte("new"), 0o644) }
	if err := write(ta); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a read-only export: %v", err)
	}
	if list, err := c.Exports(context.Background()); err != nil || len(list) != 2 || list[0].Groups[0] != "127.0.0.1" || list[1].Dir != b {
		t.Errorf("exports: %+v, %v", list, err)
	}

	reload := func() error {
		_, err := run(context.Background(), "reload", "--control", socket)
		return err
	}
	for text, want := range map[string]string{a + " *(rw,insecure,pnfs)\n": file + ":1:", both + "/not/there *\n": file + ":3: directory /not/there does not exist", "# nothing\n": "nothing to export"} {
		put(t, file, text)
		if err := reload(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, err := tb.ReadFile(context.Background(), "f"); err != nil {
			t.Errorf("after a reload that was refused: %v", err)
		}
	}
	put(t, file, a+" 127.0.0.1(rw,insecure,no_root_squash)\n")
	if err := reload(); err != nil {
		t.Fatalf("reload: %v", err)
	}
	if err := write(ta); err != nil {
		t.Errorf("write to an export that is read-write now: %v", err)
	}
	if _, err := tb.ReadFile(context.Background(), "f"); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("a file of an export that went: %v", err)
	}
	if _, err := c.Mount(context.Background(), b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("mount of an export that went: %v", err)
	}

	put(t, file, a+" 127.0.0.9(rw,insecure)\n")
	must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	for begin := time.Now(); ; {
		if _, err := ta.ReadFile(context.Background(), "f"); errors.Is(err, fs.ErrPermission) {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("SIGHUP has no effect")
		}
	}
}

// TestFileBesideCommandLine: an export in the file must be served, and must not be on the command
// line too. Otherwise the error has the file's line, at start and by a reload.
func TestFileBesideCommandLine(t *testing.T) {
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "exports"), filepath.Join(dir, "control")
	mistakes := map[string]string{
		"\n" + dir + " *\n":      file + ":2: the command line exports " + dir + ", too",
		"/memory *(ro,fsid=5)\n": file + ":1:9: fsid=5 is for directories, and /memory is of memory (--memory): leave it out",
	}
	args := []string{dir, "--memory", "--exports", file, "--ephemeral-key"}
	for text, want := range mistakes {
		put(t, file, text)
		_, err := run(t.Context(), append([]string{"serve"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	put(t, file, "")
	serveUntilEnd(t, append(args, "--control", socket, "--tcp-port", freePort(t))...)
	awaitControl(t, socket)
	for text, want := range mistakes {
		put(t, file, text)
		_, err := run(t.Context(), "reload", "--control", socket)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("reload of %q: %v, want %q", text, err, want)
		}
	}
}

// TestRulesOfMemory: a line of the file controls access to the file tree in memory, at start and
// after each reload; the tree's files stay.
func TestRulesOfMemory(t *testing.T) {
	dir, tcp := t.TempDir(), freePort(t)
	file, socket := filepath.Join(dir, "exports"), filepath.Join(dir, "control")
	put(t, file, "/scratch *(ro,insecure)\n")
	serveUntilEnd(t, "--memory=/scratch", "--exports", file, "--ephemeral-key", "--trust-local", "--control", socket, "--tcp-port", tcp)
	c := dialServe(t, "127.0.0.1:"+tcp)
	awaitControl(t, socket)
	tree, err := c.Mount(t.Context(), "/scratch")
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	for i, step := range []struct {
		rules string
		want  error  // the result of a write
		view  string // part of the output of the command exports
	}{
		{"/scratch *(ro,insecure)\n", syscall.EROFS, "\n/scratch *(ro,sync,insecure,root_squash)\n"},
		{"/scratch 127.0.0.0/8(rw,insecure)\n", nil, "\n/scratch 127.0.0.0/8(rw,sync,insecure,root_squash)\n"},
		{"/scratch 127.0.0.9(rw,insecure)\n", fs.ErrPermission, "/scratch 127.0.0.9"},
		{"# none\n", nil, "; from the command line\n/scratch *(rw,"},
		{"/scratch *(ro,insecure)\n", syscall.EROFS, "/scratch *(ro,"},
	} {
		if put(t, file, step.rules); i > 0 {
			if out, err := run(t.Context(), "reload", "--control", socket); err != nil || !strings.Contains(out, " is in force: 1 export\n") {
				t.Fatalf("reload of %q: %q, %v", step.rules, out, err)
			}
		}
		if err := tree.WriteFile(t.Context(), "f", []byte("data"), 0o644); !errors.Is(err, step.want) {
			t.Errorf("write with %q: %v, want %v", step.rules, err, step.want)
		}
		if out, err := run(t.Context(), "exports", "--control", socket); err != nil || !strings.Contains(out, step.view) {
			t.Errorf("exports with %q: %v, %q", step.rules, err, out)
		}
	}
	if b, err := tree.ReadFile(t.Context(), "f"); err != nil || string(b) != "data" {
		t.Errorf("the file after all reloads: %q, %v", b, err)
	}
	for text, want := range map[string]string{"/scratch 10.0.0.7\n": "/scratch\n  10.0.0.7  ", "\n/scratch -crossmnt *\n": file + ":2:20: crossmnt is for directories"} {
		put(t, file, text)
		out, err := run(t.Context(), "check", "--memory=/scratch", file)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, want) || (err != nil) != strings.Contains(text, "crossmnt") {
			t.Errorf("check of %q: %q, want %q", text, out, want)
		}
		if out, err := run(t.Context(), "check", file); err == nil || !strings.Contains(out, "directory /scratch does not exist") {
			t.Errorf("check without --memory: %q, %v", out, err)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "exports")
	put(t, file, dir+" 10.0.0.0/8(rw,no_root_squash) 127.0.0.1(all_squash,anonuid=7) -insecure *\n"+dir+"/in *(rw,crossmnt,fsid=5)\n")
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
	for _, c := range []struct {
		args []string
		want string // part of the output or of the error
		ok   bool
	}{
		{[]string{file}, dir + "\n  10.0.0.0/8               rw,sync,secure,no_root_squash\n", true},
		{[]string{file}, dir + "/in  (crossmnt, fsid=5)\n  *                        rw,sync,secure,root_squash\n", true},
		{[]string{"--client", "10.0.0.7", file, dir}, "10.0.0.7 on " + dir + ": reads and writes, root is root, over TCP only from ports below 1024\n  by 10.0.0.0/8 of " + dir, true},
		{[]string{"--client", "127.0.0.1", file, dir + "/x/y"}, "reads, all users act as 7:65534,", true},
		{[]string{"--client", "localhost", file, dir + "/x/y"}, "by 127.0.0.1 of ", true},
		{[]string{"--client", "2001:db8::1", file, dir}, "reads, root acts as 65534:65534\n  by * of", true},
		{[]string{"--client", "10.0.0.7", file, dir + "/in/x"}, "by * of " + dir + "/in:", true},
		{[]string{"--client", "10.0.0.7", file, "/elsewhere"}, "refused: no export", false},
		{[]string{"--client", "10.0.0.7", file, "in"}, "in is not an absolute path", false},
		{[]string{"--exports", file, "--client", "10.0.0.7"}, "on " + dir + "/in: reads and writes, root acts", true},
		{[]string{"--exports", file, "--client", "10.0.0.7"}, "on " + dir + ": reads and writes, root is root", true},
		{[]string{"--exports", file, "--client", "10.0.0.7", dir}, "by 10.0.0.0/8 of " + dir, true},
		{[]string{"--exports", file}, dir + "/in  (crossmnt, fsid=5)\n", true},
		{[]string{file + "-not"}, "exports-not does not exist: create it", false},
		{[]string{file, dir}, "--client", false},
	} {
		out, err := run(context.Background(), append([]string{"check"}, c.args...)...)
		if err != nil {
			out += err.Error()
		}
		if (err == nil) != c.ok || !strings.Contains(out, c.want) {
			t.Errorf("check %v: %q (%v), want %q", c.args, out, err, c.want)
		}
	}
	put(t, file, "/not/there *\n")
	if out, err := run(context.Background(), "check", file); err == nil || !strings.Contains(out, "does not exist") {
		t.Errorf("%q, %v", out, err)
	}
	put(t, file, dir+" 10.0.0.1\n")
	if _, err := run(context.Background(), "check", "--client", "10.0.0.2", file, dir); err == nil || !strings.Contains(err.Error(), "names no client with this address") {
		t.Errorf("run: %v, want %q", err, "names no client with this address")
	}
	if out, err := run(context.Background(), "check", "--exports", file, "--client", "10.0.0.2"); err == nil || !strings.Contains(out, "10.0.0.2 on "+dir+": refused") {
		t.Errorf("%q, %v", out, err)
	}
	put(t, file, dir+" @group\n/x\n"+dir+"/in *\ny z\n")
	var complaints bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"check", file})
	root.SetErr(&complaints)
	err := root.Execute()
	if err == nil || !strings.Contains(err.Error(), file+": 3 mistakes") || strings.Count(complaints.String(), "\n") != 3 || !has(file+":1:", "\n"+file+":2:1: ", "\n"+file+":4:1: ")(complaints.String()) {
		t.Errorf("%v\n%s", err, &complaints)
	}
	if _, err := run(context.Background(), "serve", "--exports", file, "--ephemeral-key"); err == nil || !strings.Contains(err.Error(), "(the first of 3 mistakes: ") {
		t.Errorf("run: %v, want %q", err, "(the first of 3 mistakes: ")
	}
	put(t, file, dir+" @group\n")
	if _, err := run(context.Background(), "check", file); err == nil || !strings.Contains(err.Error(), file+":1:") {
		t.Errorf("run: %v, want %q", err, file+":1:")
	}
}

func TestReloadWithoutServer(t *testing.T) {
	_, err := run(context.Background(), "reload", "--control", filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.Contains(err.Error(), "SIGHUP") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want one line with SIGHUP", err)
	}
}

// TestGrammarPage: the page on the grammar is installed, and its example is valid.
func TestGrammarPage(t *testing.T) {
	dir := t.TempDir()
	if _, err := run(context.Background(), "man", dir); err != nil {
		t.Fatalf("run: %v", err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man5", "nfsrdma-exports.5"))
	if err != nil || !strings.Contains(string(page), "root_squash") {
		t.Errorf("%.100s, %v", page, err)
	}
	f, err := exports.Parse("example", []byte(grammarExample))
	if err != nil || len(f.Exports) != 6 {
		t.Errorf("the example of the page: %v", err)
	}
	if out, err := run(context.Background(), "help", "exports-file"); err != nil || !strings.Contains(out, "anonuid=UID") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestDefaultExportsFile: the default file is used if nothing else is exported and the file exists.
func TestDefaultExportsFile(t *testing.T) {
	defer func(name string) { defaultExports = name }(defaultExports)
	defaultExports = filepath.Join(t.TempDir(), "exports")
	file := func(o options, args ...string) string { return newExportSet(&o, args).file }
	if got := file(options{}); got != "" {
		t.Errorf("%q, which is not there", got)
	}
	put(t, defaultExports, "")
	if got := file(options{}); got != defaultExports {
		t.Errorf("%q", got)
	}
	if got := file(options{}, "/srv"); got != "" {
		t.Errorf("%q beside a directory", got)
	}
	if got := file(options{memory: "/memory"}); got != "" {
		t.Errorf("%q beside --memory", got)
	}
	if got := file(options{exports: "mine"}, "/srv"); got != "mine" {
		t.Errorf("%q", got)
	}
}
