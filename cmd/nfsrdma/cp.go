// nfsrdma cp: files and trees, in either direction.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

func newCp(s *session) *cobra.Command {
	var recursive, quiet bool
	cmd := &cobra.Command{
		Use:   "cp [-r] SOURCE... DESTINATION",
		Short: "Copy files and trees to, from and between servers",
		Long: `Copy files and trees to, from and between servers.

Modes and times are kept to the nanosecond, symbolic links are copied as such with
-r and followed without. Files are copied many at once. Existing files are overwritten.`,
		Example: `  nfsrdma cp server:/export/a.iso .
  nfsrdma cp a b nfsrdma://server/export/dir/
  nfsrdma cp -r server:/export/src ./src
  nfsrdma cp -r --transport tcp ./src server:/export/src2`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newCopier(func(format string, a ...any) { fmt.Fprintf(s.stderr, "nfsrdma: "+format+"\n", a...) })
			start := time.Now()
			stop := func() {}
			if !quiet {
				stop = showProgress(s.stderr, c)
			}
			err := s.copyAll(cmd.Context(), c, args[:len(args)-1], args[len(args)-1], recursive)
			stop()
			if err == nil && !quiet {
				c.report(cmd, time.Since(start))
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy directories with all that is below them")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress bar and no summary")
	return cmd
}

func (c *copier) report(cmd *cobra.Command, d time.Duration) {
	n := c.bytes.Load()
	rate := float64(n) / d.Seconds()
	fmt.Fprintf(cmd.ErrOrStderr(), "%s, %s, %s, %s in %.2fs (%s/s)\n", plural(c.files.Load(), "file"),
		plural(c.links.Load(), "link"), pluralDirs(c.dirs.Load()), size(uint64(n)), d.Seconds(), size(uint64(rate)))
}

func pluralDirs(n int64) string {
	if n == 1 {
		return "1 directory"
	}
	return fmt.Sprintf("%d directories", n)
}

func (s *session) copyAll(ctx context.Context, c *copier, sources []string, dst string, recursive bool) error {
	to, err := s.destination(ctx, dst)
	if err != nil {
		return err
	}
	defer to.close()
	if len(sources) > 1 && to.name != "" {
		return fmt.Errorf("%s: is not a directory", dst)
	}
	for _, src := range sources {
		if err := s.copyOne(ctx, c, src, to, recursive); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) copyOne(ctx context.Context, c *copier, src string, to *dest, recursive bool) error {
	from, err := s.origin(ctx, src, !recursive)
	if err != nil {
		return err
	}
	name := to.name
	if name == "" {
		if name = from.m.name; badName(name) {
			from.close()
			return fmt.Errorf("%s: has no name of its own, give one to the destination", src)
		}
	}
	switch {
	case from.m.mode.IsDir() && !recursive:
		from.close()
		return fmt.Errorf("%s: is a directory, copy it with -r", src)
	case from.m.mode.IsDir():
		err = c.tree(ctx, from.d, to.dir, from.m, name)
	case from.m.mode.IsRegular():
		c.total.Add(from.m.size)
		m := from.m
		m.name = name
		err = c.file(ctx, from.f, to.dir, m)
		from.close()
	case from.m.mode.Type() == fs.ModeSymlink:
		m := from.m
		m.name = name
		c.links.Add(1)
		err = to.dir.symlink(ctx, from.link, m)
	default:
		err = fmt.Errorf("is a %s", typeName(from.m.mode))
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", src, err)
	}
	return nil
}

// An origin is what is copied: a directory, an open file, or a link's content.
type origin struct {
	m    meta
	d    dir
	f    source
	link string
}

func (o *origin) close() {
	if o.d != nil {
		o.d.close()
	}
	if o.f != nil {
		o.f.Close()
	}
}

func (s *session) origin(ctx context.Context, arg string, follow bool) (*origin, error) {
	t, err := s.target(arg)
	if errors.Is(err, nfsclient.ErrNotRemote) {
		return localOrigin(arg, follow)
	}
	if err != nil {
		return nil, err
	}
	fsys, rest, err := s.mount(ctx, t)
	if err != nil {
		return nil, err
	}
	stat := fsys.Lstat
	if follow {
		stat = fsys.Stat
	}
	fi, err := stat(ctx, rest)
	if err != nil {
		return nil, err
	}
	o := &origin{m: remoteMeta(path.Base(t.Path), fi.Node)}
	switch fi.Attr.Type {
	case nfs3.TypeDir:
		o.d = remoteDir{fsys.At(fi.FH, t.Path)}
	case nfs3.TypeReg:
		o.f = fsys.OpenNode(ctx, fi.FH, rest, os.O_RDONLY)
	case nfs3.TypeLnk:
		o.link, err = fsys.Client().Readlink(ctx, fi.FH)
	}
	return o, err
}

func localOrigin(arg string, follow bool) (*origin, error) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	fi, err := stat(arg)
	if err != nil {
		return nil, err
	}
	o := &origin{m: localMeta(fi)}
	o.m.name = filepath.Base(filepath.Clean(arg))
	switch fi.Mode().Type() {
	case fs.ModeDir:
		var d *localDir
		if d, err = openLocal(arg); err == nil {
			o.d = d
		}
	case 0:
		var f *os.File
		if f, err = os.Open(arg); err == nil {
			o.f = f
		}
	case fs.ModeSymlink:
		o.link, err = os.Readlink(arg)
	}
	return o, err
}

// A dest is where a copy goes: into dir, under name, or under each source's own
// name when name is empty.
type dest struct {
	dir
	name string
}

func (s *session) destination(ctx context.Context, arg string) (*dest, error) {
	t, err := s.target(arg)
	if errors.Is(err, nfsclient.ErrNotRemote) {
		return localDest(arg)
	}
	if err != nil {
		return nil, err
	}
	fsys, rest, err := s.mount(ctx, t)
	if err != nil {
		return nil, err
	}
	if d, err := fsys.Sub(ctx, rest); err == nil {
		return &dest{dir: remoteDir{d}}, nil
	} else if rest == "" {
		return nil, err
	}
	d, err := fsys.Sub(ctx, path.Dir(rest))
	if err != nil {
		return nil, err
	}
	return &dest{dir: remoteDir{d}, name: path.Base(rest)}, nil
}

func localDest(arg string) (*dest, error) {
	if fi, err := os.Stat(arg); err == nil && fi.IsDir() {
		d, err := openLocal(arg)
		return &dest{dir: d}, err
	}
	d, err := openLocal(filepath.Dir(filepath.Clean(arg)))
	return &dest{dir: d, name: filepath.Base(filepath.Clean(arg))}, err
}
