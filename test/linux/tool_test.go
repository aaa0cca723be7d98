// Our client program, pointed at Linux's server.

package linux

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// tool is our client program, pointed at one server.
type tool struct {
	t      *testing.T
	scheme string
	port   int
	args   []string
	at     string   // the server's address; "": 127.0.0.1, where taps are
	env    []string // in addition to the test's environment
}

// patience is for guests that share two processors with all other tests.
var patience = []string{"--connect-timeout", "1m"}

// rdmaTool and tcpTool return our client program for a guest's server; more are further flags.
func rdmaTool(t *testing.T, s *far, more ...string) tool {
	return tool{t: t, scheme: "nfsrdma", port: s.rdma, args: append(append(more, patience...), "--mount-port", fmt.Sprint(s.mountd))}
}

func tcpTool(t *testing.T, s *far) tool {
	return tool{t: t, scheme: "nfs", port: s.tcp, args: append([]string{"--mount-port", fmt.Sprint(s.mountd)}, patience...)}
}

// host returns the server's URL, url its export's.
func (c tool) host() string {
	return fmt.Sprintf("%s://%s:%d", c.scheme, cmp.Or(c.at, "127.0.0.1"), c.port)
}
func (c tool) url() string             { return c.host() + "/export" }
func (c tool) path(name string) string { return c.url() + "/" + name }

func (c tool) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program(c.t, "cmd/nfsrdma"), append(args, c.args...)...)
	if c.env != nil {
		cmd.Env = append(os.Environ(), c.env...)
	}
	return cmd
}

// fails runs one command that must end with one line of error, which contains why.
func (c tool) fails(why string, args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), commandTime)
	defer cancel()
	out, err := c.command(ctx, args...).CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), why) {
		c.t.Errorf("nfsrdma %s: %v, %q; want one line of error with %q", strings.Join(args, " "), err, out, why)
	}
}

// do runs one command that must succeed, and returns its output.
func (c tool) do(args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), commandTime)
	defer cancel()
	cmd := c.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("nfsrdma %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

// sizesRoundTrip copies files of all sizes at which the transport changes its methods.
func sizesRoundTrip(t *testing.T, c tool) {
	t.Helper()
	dir := t.TempDir()
	for _, n := range sizes {
		write(t, filepath.Join(dir, fmt.Sprint(n)), pattern(n, 2))
	}
	must.Succeed(t, os.Symlink(strings.Repeat("long", 1000), filepath.Join(dir, "link")))
	back := filepath.Join(t.TempDir(), "back")
	c.do("cp", "-a", dir, c.path("sizes"))
	c.do("cp", "-a", c.path("sizes"), back)
	sameTree(t, back, dir)
	c.do("rm", "-r", c.path("sizes"))
}

func treeRoundTrip(t *testing.T, c tool, files int) {
	t.Helper()
	dir := t.TempDir()
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprintf("dir-%d", i%37), fmt.Sprintf("sub-%d", i%5))
		must.Succeed(t, os.MkdirAll(sub, 0o755))
		write(t, filepath.Join(sub, fmt.Sprintf("file-%d", i)), pattern(i*13%7001, 3))
	}
	for i, target := range []string{"x", strings.Repeat("t", 1023), strings.Repeat("u", 1025), strings.Repeat("v", 4000)} {
		must.Succeed(t, os.Symlink(target, filepath.Join(dir, fmt.Sprintf("link-%d", i))))
	}
	must.Succeed(t, os.Chmod(filepath.Join(dir, "dir-0", "sub-0", "file-0"), 0o751))
	back := filepath.Join(t.TempDir(), "back")
	c.do("cp", "-a", dir, c.path("tree"))
	c.do("cp", "-a", c.path("tree"), back)
	sameTree(t, back, dir)
	c.do("rm", "-r", c.path("tree"))
}

// commands runs each command once and checks its effect.
func commands(t *testing.T, c tool) {
	t.Helper()
	want := func(part string, args ...string) {
		t.Helper()
		if out := c.do(args...); !strings.Contains(out, part) {
			t.Errorf("%s: %q does not hold %q", args[0], out, part)
		}
	}
	local := filepath.Join(t.TempDir(), "f")
	write(t, local, []byte("some text\n"))
	c.do("mkdir", "-p", c.path("d/e/f"))
	c.do("cp", local, c.path("d/f"))
	want("f", "ls", c.path("d"))
	want("some text\n", "cat", c.path("d/f"))
	c.do("mv", c.path("d/f"), c.path("d/g"))
	c.do("ln", c.path("d/g"), c.path("d/hard"))
	c.do("ln", "-s", "g", c.path("d/soft"))
	want("some text\n", "cat", c.path("d/hard"))
	want("soft -> g", "ls", "-l", c.path("d"))
	want("10", "stat", c.path("d/g"))
	want("/export", "df", c.url())
	want("/export", "showmount", c.host())
	want("NULL", "ping", "-i", "0", c.host())
	want("KiB random + COMMIT", "bench", "--no-raw", "--tests", "null,write,read,randwrite", "--size", "4M", "--duration", "100ms", c.path("d"))
	c.do("rm", c.path("d/hard"))
	c.do("rm", "-r", c.path("d"))
	if out := c.do("ls", c.url()); strings.Contains(out, "d\n") {
		t.Errorf("left behind: %q", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	if out, err := c.command(ctx, "cat", c.path("none")).CombinedOutput(); err == nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("cat of nothing: %v, %q; want one line of error", err, out)
	}
}
