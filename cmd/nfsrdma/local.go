// The local side of a copy: a directory that names cannot lead out of.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// localDir is a directory of this machine, held by descriptor: a server that
// hands out a hostile tree cannot make us write through a symbolic link.
type localDir struct {
	root *os.Root
	self *os.File // the directory itself, for calls that os.Root has not
}

func openLocal(name string) (*localDir, error) {
	r, err := os.OpenRoot(name)
	return newLocal(r, err)
}

func newLocal(r *os.Root, err error) (*localDir, error) {
	if err != nil {
		return nil, err
	}
	self, err := r.Open(".")
	if err != nil {
		r.Close()
		return nil, err
	}
	return &localDir{root: r, self: self}, nil
}

func (d *localDir) close() error {
	return errors.Join(d.self.Close(), d.root.Close())
}

// dirBatch is how many names of a local directory are read at once.
const dirBatch = 1024

func (d *localDir) entries(context.Context) iter.Seq2[meta, error] {
	return func(yield func(meta, error) bool) {
		f, err := d.root.Open(".")
		if err != nil {
			yield(meta{}, err)
			return
		}
		defer f.Close()
		for {
			list, err := f.ReadDir(dirBatch)
			for _, e := range list {
				fi, err := e.Info()
				if errors.Is(err, fs.ErrNotExist) {
					continue // gone since it was listed
				}
				if err != nil {
					yield(meta{}, err)
					return
				}
				if !yield(localMeta(fi), nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(meta{}, err)
				return
			}
		}
	}
}

func localMeta(fi fs.FileInfo) meta {
	m := meta{name: fi.Name(), mode: fi.Mode(), size: fi.Size(), mtime: fi.ModTime(), atime: fi.ModTime()}
	if t, ok := accessTime(fi); ok {
		m.atime = t
	}
	return m
}

func (d *localDir) sub(_ context.Context, m meta) (dir, error) {
	fi, err := d.root.Lstat(m.name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: m.name, Err: unix.ENOTDIR}
	}
	return newLocal(d.root.OpenRoot(m.name))
}

func (d *localDir) open(_ context.Context, m meta) (source, error) {
	return d.root.OpenFile(m.name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
}

func (d *localDir) readlink(_ context.Context, m meta) (string, error) {
	return d.root.Readlink(m.name)
}

func (d *localDir) mkdir(ctx context.Context, name string, perm fs.FileMode) (dir, error) {
	err := d.root.Mkdir(name, perm.Perm())
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return d.sub(ctx, meta{name: name})
}

// localSink is a file being written in a directory.
type localSink struct {
	*os.File
	d *localDir
}

// create unlinks nothing: an existing file keeps its inode, as with cp.
func (d *localDir) create(_ context.Context, m meta) (sink, error) {
	return d.createFile(m)
}

func (d *localDir) createFile(m meta) (*localSink, error) {
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC | unix.O_NOFOLLOW
	f, err := d.root.OpenFile(m.name, flag, m.mode.Perm()|0o200)
	if err != nil {
		return nil, err
	}
	return &localSink{f, d}, nil
}

func (s *localSink) abort() { s.Close() }

func (s *localSink) finish(_ context.Context, m meta) error {
	fi, err := s.Stat()
	if err == nil {
		err = sameSize(fi.Size(), m.size)
	}
	if err == nil {
		err = s.Chmod(m.mode & permBits)
	}
	if err == nil {
		err = s.d.setTimes(m)
	}
	return errors.Join(err, s.Close())
}

func (d *localDir) put(ctx context.Context, m meta, data []byte) error {
	s, err := d.createFile(m)
	if err != nil {
		return err
	}
	if _, err := s.Write(data); err != nil {
		s.abort()
		return err
	}
	return s.finish(ctx, m)
}

func (d *localDir) symlink(_ context.Context, target string, m meta) error {
	err := d.root.Symlink(target, m.name)
	if errors.Is(err, fs.ErrExist) {
		if old, e := d.root.Readlink(m.name); e == nil && old == target {
			err = nil
		} else if e == nil {
			if err = d.root.Remove(m.name); err == nil {
				err = d.root.Symlink(target, m.name)
			}
		}
	}
	if err != nil {
		return err
	}
	return d.setTimes(m)
}

// setMeta sets times first: the mode may take away the right to.
func (d *localDir) setMeta(_ context.Context, m meta) error {
	m.name = "."
	if err := d.setTimes(m); err != nil {
		return err
	}
	return d.self.Chmod(m.mode & permBits)
}

// setTimes sets the times to the nanosecond, of a symbolic link itself too.
func (d *localDir) setTimes(m meta) error {
	ts := []unix.Timespec{timespec(m.atime), timespec(m.mtime)}
	err := unix.UtimesNanoAt(int(d.self.Fd()), m.name, ts, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("set times of %s: %w", m.name, err)
	}
	return nil
}

func timespec(t time.Time) unix.Timespec {
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}
