// The test suite of go-billy 5 over the wire, for version 6, whose suite cannot be imported.

package billyv6_test

import (
	"fmt"
	"io/fs"
	"testing"

	v5 "github.com/go-git/go-billy/v5"
	suite "github.com/go-git/go-billy/v5/test"
	"github.com/go-git/go-billy/v6"
	"github.com/go-git/go-billy/v6/memfs"
	"gopkg.in/check.v1"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/billyv6"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/wire"
)

// An older presents a file system of version 6 as one of version 5.
type older struct{ billy.Filesystem }

// An olderFile has methods for locks, which files of version 6 need not have.
type olderFile struct{ billy.File }

func (olderFile) Lock() error   { return nil }
func (olderFile) Unlock() error { return nil }

// olderError returns the error with which go-billy's tests compare err.
func olderError(err error) error {
	if err == billy.ErrCrossedBoundary { // the tests compare with version 5's error
		return v5.ErrCrossedBoundary
	}
	return err
}

func asOlder(f billy.File, err error) (v5.File, error) {
	if err != nil {
		return nil, olderError(err)
	}
	return olderFile{f}, nil
}

func (o older) Remove(name string) error       { return olderError(o.Filesystem.Remove(name)) }
func (o older) Rename(from, to string) error   { return olderError(o.Filesystem.Rename(from, to)) }
func (o older) Symlink(target, l string) error { return olderError(o.Filesystem.Symlink(target, l)) }

func (o older) Stat(name string) (fs.FileInfo, error) {
	info, err := o.Filesystem.Stat(name)
	return info, olderError(err)
}

func (o older) Create(name string) (v5.File, error) { return asOlder(o.Filesystem.Create(name)) }
func (o older) Open(name string) (v5.File, error)   { return asOlder(o.Filesystem.Open(name)) }

func (o older) OpenFile(name string, flag int, perm fs.FileMode) (v5.File, error) {
	return asOlder(o.Filesystem.OpenFile(name, flag, perm))
}

func (o older) TempFile(dir, prefix string) (v5.File, error) {
	return asOlder(o.Filesystem.TempFile(dir, prefix))
}

func (o older) ReadDir(name string) ([]fs.FileInfo, error) {
	list, err := o.Filesystem.ReadDir(name)
	infos := make([]fs.FileInfo, len(list))
	for i, e := range list {
		if infos[i], err = e.Info(); err != nil {
			return nil, err
		}
	}
	return infos, err
}

func (o older) Chroot(path string) (v5.Filesystem, error) {
	f, err := o.Filesystem.Chroot(path)
	return older{f}, err
}

// A wireSuite runs go-billy's tests, each in a new directory.
type wireSuite struct {
	suite.FilesystemSuite
	t      *testing.T
	export *nfsclient.FS
	tests  int
}

func (s *wireSuite) SetUpTest(*check.C) {
	s.tests++
	dir := wire.NewDir(s.t, s.export, fmt.Sprint(s.tests))
	s.FilesystemSuite = suite.NewFilesystemSuite(older{billyv6.FromClient(s.t.Context(), dir)})
}

// Empty tests replace go-billy's tests with 1,024 files and with 100 nested directories.
func (s *wireSuite) TestTempFileMany(*check.C)         {}
func (s *wireSuite) TestTempFileManyWithUtil(*check.C) {}
func (s *wireSuite) TestReadDirNested(*check.C)        {}

func TestSuiteOverTheWire(t *testing.T) {
	export := wire.Mount(t, newTree(t, memfs.New(), adapters.Options{}))
	result := check.Run(&wireSuite{t: t, export: export}, &check.RunConf{Output: testWriter{t}})
	if !result.Passed() || result.Succeeded < 40 {
		t.Errorf("go-billy's tests: %v", result)
	}
}

// A testWriter writes to a test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}
