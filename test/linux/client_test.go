// We use Linux: our client against the guest's knfsd, over its stock driver.

package linux

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// tool is our client program, pointed at one server.
type tool struct {
	t    *testing.T
	url  string // of the export
	args []string
}

func (c tool) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program(c.t, "cmd/nfsrdma"), append(args, c.args...)...)
}

// do runs one command that must end well and returns what it prints.
func (c tool) do(args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 4*time.Minute)
	defer cancel()
	cmd := c.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("nfsrdma %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

func (c tool) path(name string) string { return c.url + "/" + name }

func rdmaTool(t *testing.T, port, mount int, more ...string) tool {
	return tool{t, fmt.Sprintf("nfsrdma://127.0.0.1:%d/export", port), append(more, "--mount-port", fmt.Sprint(mount))}
}

func tcpTool(t *testing.T, port, mount int) tool {
	return tool{t, fmt.Sprintf("nfs://127.0.0.1:%d/export", port), []string{"--mount-port", fmt.Sprint(mount)}}
}

func TestWeUseLinux(t *testing.T) {
	s := knfsd(t, "6.1", guest.Stock)
	t.Run("64MB", func(t *testing.T) {
		for _, c := range []tool{rdmaTool(t, s.RDMA, s.Mount), rdmaTool(t, s.RDMA, s.Mount, "--crc", "off"), tcpTool(t, s.TCP, s.Mount)} {
			roundTrip(t, c)
		}
	})
	t.Run("commands", func(t *testing.T) {
		commands(t, rdmaTool(t, s.RDMA, s.Mount))
		commands(t, tcpTool(t, s.TCP, s.Mount))
	})
	t.Run("tree", func(t *testing.T) { treeRoundTrip(t, rdmaTool(t, s.RDMA, s.Mount), 2000) })
	t.Run("fresh-connections", func(t *testing.T) {
		// The stock driver may lose the wake-up for our first FPDU; that must never hang us.
		c := rdmaTool(t, s.RDMA, s.Mount)
		const connections = 300
		for i := range connections {
			start := time.Now()
			if out := c.do("cat", c.path("hello.txt")); out != "hello from knfsd\n" {
				t.Fatalf("connection %d read %q", i, out)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("connection %d took %v", i, d)
			}
		}
	})
	t.Run("wire", func(t *testing.T) {
		for _, crc := range []string{"on", "off"} {
			port, judge := tapped(t, s.RDMA)
			c := rdmaTool(t, port, s.Mount, "--crc", crc)
			sizesRoundTrip(t, c)
			judge(wire.Want{CRC: crc == "on", ClientOurs: true})
		}
	})
	run(t, s.Guest, "rm -rf /export/*")
	quiet(t, s.Guest)
}

// knfsd goes away and comes back while we copy: the copy ends well or with an error
// within its time, and what it says it has copied is there.
func TestLinuxServerRestarts(t *testing.T) {
	s := knfsd(t, "6.1", guest.Stock)
	c := rdmaTool(t, s.RDMA, s.Mount)
	dir := t.TempDir()
	want := pattern(64<<20, 4)
	write(t, filepath.Join(dir, "out"), want)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := c.command(ctx, "cp", filepath.Join(dir, "out"), c.path("big"))
	done := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		t.Logf("cp: %v, %q", err, out)
		done <- err
	}()
	run(t, s.Guest, `
n=0
until [ $(stat -c %s /export/big 2>/dev/null || echo 0) -gt 4000000 ] || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.1; done
rpc.nfsd 0 && sleep 1 && rpc.nfsd 4 && echo "rdma 20049" > /proc/fs/nfsd/portlist`)
	err := <-done
	if ctx.Err() != nil {
		t.Fatal("the copy hangs")
	}
	if err == nil {
		c.do("cp", c.path("big"), filepath.Join(dir, "in"))
		sameFile(t, filepath.Join(dir, "in"), want)
	}
	// Either way the server is usable again.
	c.do("cp", filepath.Join(dir, "out"), c.path("again"))
	c.do("cp", c.path("again"), filepath.Join(dir, "in2"))
	sameFile(t, filepath.Join(dir, "in2"), want)
}

// tapped puts a tap with a capture before a port; the function that it returns ends both
// and judges what went through.
func tapped(t *testing.T, port int) (int, func(wire.Want)) {
	t.Helper()
	dir := os.Getenv("NFSRDMA_CAPTURES") // kept there to be read
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.pcap", strings.ReplaceAll(t.Name(), "/", "-"), port))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	capture := tap.NewCapture(f)
	tp, err := tap.New(fmt.Sprintf("127.0.0.1:%d", port), capture)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tp.Close() })
	return tp.Port(), func(want wire.Want) {
		t.Helper()
		tp.Close()
		if err := capture.Close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		wire.Check(t, path, want)
	}
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed, byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func sameFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d octets with sum %x, want %d with %x", filepath.Base(path), len(got), sha256.Sum256(got), len(want), sha256.Sum256(want))
	}
}

func roundTrip(t *testing.T, c tool) {
	t.Helper()
	dir := t.TempDir()
	want := pattern(64<<20, 1)
	write(t, filepath.Join(dir, "out"), want)
	c.do("cp", filepath.Join(dir, "out"), c.path("big"))
	c.do("cp", c.path("big"), filepath.Join(dir, "in"))
	sameFile(t, filepath.Join(dir, "in"), want)
	c.do("rm", c.path("big"))
}

// sizesRoundTrip copies files of all sizes at which the transport changes its ways.
func sizesRoundTrip(t *testing.T, c tool) {
	t.Helper()
	dir := t.TempDir()
	for _, n := range []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20} {
		write(t, filepath.Join(dir, fmt.Sprint(n)), pattern(n, 2))
	}
	if err := os.Symlink(strings.Repeat("long", 1000), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	back := filepath.Join(t.TempDir(), "back")
	c.do("cp", "-r", dir, c.path("sizes"))
	c.do("cp", "-r", c.path("sizes"), back)
	sameTree(t, back, dir)
	c.do("rm", "-r", c.path("sizes"))
}

func treeRoundTrip(t *testing.T, c tool, files int) {
	t.Helper()
	dir := t.TempDir()
	for i := range files {
		sub := filepath.Join(dir, fmt.Sprintf("dir-%d", i%37), fmt.Sprintf("sub-%d", i%5))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(sub, fmt.Sprintf("file-%d", i)), pattern(i*13%7001, 3))
	}
	for i, target := range []string{"x", strings.Repeat("t", 1023), strings.Repeat("u", 1025), strings.Repeat("v", 4000)} {
		if err := os.Symlink(target, filepath.Join(dir, fmt.Sprintf("link-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "dir-0", "sub-0", "file-0"), 0o751); err != nil {
		t.Fatal(err)
	}
	back := filepath.Join(t.TempDir(), "back")
	c.do("cp", "-r", dir, c.path("tree"))
	c.do("cp", "-r", c.path("tree"), back)
	sameTree(t, back, dir)
	c.do("rm", "-r", c.path("tree"))
}

// sameTree compares names, kinds, modes, contents, targets and the times of files.
func sameTree(t *testing.T, got, want string) {
	t.Helper()
	a, b := describe(t, got), describe(t, want)
	for name, line := range b {
		if a[name] != line {
			t.Errorf("%s: %q, want %q", name, a[name], line)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s should not be there", name)
		}
	}
}

func describe(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x %d", len(b), sha256.Sum256(b), info.ModTime().UnixNano())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + target
		}
		name, _ := filepath.Rel(root, path)
		all[name] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// commands runs each command once and looks at what it did.
func commands(t *testing.T, c tool) {
	t.Helper()
	want := func(what, out, part string) {
		t.Helper()
		if !strings.Contains(out, part) {
			t.Errorf("%s: %q does not hold %q", what, out, part)
		}
	}
	c.do("mkdir", c.path("d"))
	local := filepath.Join(t.TempDir(), "f")
	write(t, local, []byte("some text\n"))
	c.do("cp", local, c.path("d/f"))
	want("ls", c.do("ls", c.path("d")), "f")
	want("cat", c.do("cat", c.path("d/f")), "some text\n")
	c.do("mv", c.path("d/f"), c.path("d/g"))
	c.do("ln", c.path("d/g"), c.path("d/hard"))
	c.do("ln", "-s", "g", c.path("d/soft"))
	want("cat", c.do("cat", c.path("d/hard")), "some text\n")
	want("ls -l", c.do("ls", "-l", c.path("d")), "soft -> g")
	want("stat", c.do("stat", c.path("d/g")), "10")
	want("df", c.do("df", c.url), "/export")
	want("ping", c.do("ping", c.url), "NULL")
	c.do("rm", c.path("d/hard"))
	c.do("rm", "-r", c.path("d"))
	if out := c.do("ls", c.url); strings.Contains(out, "d\n") {
		t.Errorf("left behind: %q", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := c.command(ctx, "cat", c.path("none")).CombinedOutput(); err == nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("cat of nothing: %v, %q; want one line of error", err, out)
	}
}
