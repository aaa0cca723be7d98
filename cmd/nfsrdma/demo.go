// nfsrdma demo: a complete demonstration without setup.

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/cmd/internal/treecopy"
	"github.com/spf13/cobra"
)

func newDemo(s *session.Session) *cobra.Command {
	var keep time.Duration
	var verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve, copy, verify and measure, with no set-up",
		Long: `Start a server on a free loopback port, with a temporary directory as its export.
Copy a tree in and out over RDMA, compare checksums, measure NFS over RDMA beside
NFS over TCP, and clean up. If a single byte differs, the exit status is not 0.`,
		Example: "  nfsrdma demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), s, cmd.OutOrStdout(), keep, verbose)
		},
	}
	cli.DurationVar(cmd.Flags(), &keep, "duration", time.Second, "`TIME` of each measurement")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show all measurements, beside raw TCP")
	return cmd
}

func runDemo(ctx context.Context, s *session.Session, out io.Writer, duration time.Duration, verbose bool) (err error) {
	tmp, err := tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	served, source, back := filepath.Join(tmp, "served"), filepath.Join(tmp, "source"), filepath.Join(tmp, "back")
	if err := os.Mkdir(served, 0o755); err != nil {
		return err
	}
	if err := makeTree(source); err != nil {
		return err
	}
	srv, err := child.Start(ctx, "_serve", served)
	if err != nil {
		return err
	}
	defer func() {
		s.Close()
		if e := srv.Stop(); err == nil && e != nil {
			err = fmt.Errorf("server process: %w", e)
		}
	}()
	addr, tcpAddr, ok := strings.Cut(srv.Line, " ")
	if !ok {
		return fmt.Errorf("server process says %q", srv.Line)
	}
	url := "nfsrdma://" + addr + demoExport
	fmt.Fprintf(out, "server    process %d exports %s as %s\n", srv.PID(), served, url)
	if err := demoCopy(ctx, s, out, source, back, url); err != nil {
		return err
	}
	return demoBench(ctx, s, out, url, "nfs://"+tcpAddr+demoExport, duration, verbose)
}

// scratchEnv names a directory to use instead of one in memory.
const scratchEnv = "NFSRDMA_SCRATCH"

// tempDir prefers memory, so that the figures show the network.
func tempDir() (string, error) {
	if dir := os.Getenv(scratchEnv); dir != "" {
		return os.MkdirTemp(dir, "nfsrdma-demo-")
	}
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		if dir, err := os.MkdirTemp("/dev/shm", "nfsrdma-demo-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "nfsrdma-demo-")
}

// demoCopy copies the tree to the server and back over RDMA, and compares the two.
func demoCopy(ctx context.Context, s *session.Session, out io.Writer, source, back, url string) error {
	for _, step := range []struct{ name, from, to string }{
		{"copy in", source, url + "/tree"}, {"copy out", url + "/tree", back},
	} {
		var failed error
		c := treecopy.New(treecopy.Options{
			Recursive: true, Preserve: treecopy.Preserve{Mode: true, Times: true},
			Report: func(e *treecopy.Error) { failed = errors.Join(failed, e) },
		})
		start := time.Now()
		from, to := copyOperand(ctx, s, step.from), copyOperand(ctx, s, step.to)
		if err := errors.Join(from.Err, to.Err); err != nil {
			return err
		}
		if err := errors.Join(c.Copy(ctx, []treecopy.Operand{from}, to), failed); err != nil {
			return err
		}
		d := time.Since(start)
		fmt.Fprintf(out, "%-9s %s, %s, %s in %.2fs (%s/s)\n", step.name, text.Plural(c.Files.Load(), "file"),
			pluralDirs(c.Dirs.Load()), text.Size(uint64(c.Bytes.Load())), d.Seconds(),
			text.Size(uint64(float64(c.Bytes.Load())/d.Seconds())))
	}
	want, err := treeSum(os.DirFS(source))
	if err != nil {
		return err
	}
	got, err := treeSum(os.DirFS(back))
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("what came back differs: SHA-256 %x, not %x", got, want)
	}
	t, err := s.Target(url + "/tree")
	if err != nil {
		return err
	}
	fsys, rest, err := s.Mount(ctx, t)
	if err != nil {
		return err
	}
	sub, err := fsys.Sub(ctx, rest)
	if err != nil {
		return err
	}
	if got, err = treeSum(sub.IO(ctx)); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("what the server has differs: SHA-256 %x, not %x", got, want)
	}
	fmt.Fprintf(out, "verified  source, served tree and copy have the same names, modes, times and content (SHA-256 %x…)\n\n", want[:8])
	return nil
}

// demoFiles are the file sizes of the tree, around the limits of inline data, chunks and segments.
var demoFiles = []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20, 1<<20 + 1, 48 << 20}

// makeTree makes directories with small files, demoFiles, and symbolic links.
func makeTree(top string) error {
	r := rand.NewChaCha8([32]byte{1})
	when := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	write := func(name string, n int, mode fs.FileMode) error {
		b := make([]byte, n)
		_, _ = r.Read(b)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, b, mode); err != nil {
			return err
		}
		when = when.Add(time.Minute + time.Nanosecond)
		return os.Chtimes(name, when, when)
	}
	for _, n := range demoFiles {
		if err := write(filepath.Join(top, "sizes", fmt.Sprint(n)), n, 0o640); err != nil {
			return err
		}
	}
	for i := range 500 {
		name := filepath.Join(top, "many", fmt.Sprintf("d%02d", i%20), fmt.Sprintf("file %d", i))
		if err := write(name, 17*i, 0o600|fs.FileMode(i%8)); err != nil {
			return err
		}
	}
	return os.Symlink("sizes/4096", filepath.Join(top, "link"))
}

// treeSum returns a checksum of all names, types, modes, file times and contents.
func treeSum(fsys fs.FS) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v %d\n", name, fi.Mode(), fi.ModTime().UnixNano())
		switch fi.Mode().Type() {
		case 0:
			f, err := fsys.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := io.Copy(h, f)
			if err == nil && n != fi.Size() {
				err = fmt.Errorf("%s: read %d bytes of %d", name, n, fi.Size())
			}
			return err
		case fs.ModeSymlink:
			target, err := fs.ReadLink(fsys, name)
			fmt.Fprintf(h, "-> %q\n", target)
			return err
		}
		return nil
	})
	h.Sum(sum[:0])
	return sum, err
}
