// The test suite of go-billy over the wire: an adapter serves its own file system, and our client's
// adapter uses it.

package billyv5_test

import (
	"fmt"
	"testing"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	suite "github.com/go-git/go-billy/v5/test"
	"gopkg.in/check.v1"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/billyv5"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/wire"
	"github.com/nfsrdma/nfsrdma/test/must"
)

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
	s.FilesystemSuite = suite.NewFilesystemSuite(billyv5.FromClient(s.t.Context(), dir))
}

// TestTempFileMany and TestTempFileManyWithUtil replace go-billy's tests, which make 1,024 files
// each.
func (s *wireSuite) TestTempFileMany(c *check.C) {
	for range 100 {
		f, err := s.FS.TempFile("", "test-many")
		c.Assert(err, check.IsNil)
		c.Assert(f.Close(), check.IsNil)
	}
	list, err := s.FS.ReadDir("/")
	c.Assert(err, check.IsNil)
	c.Assert(len(list) > 0, check.Equals, true)
}

func (s *wireSuite) TestTempFileManyWithUtil(c *check.C) { s.TestTempFileMany(c) }

// TestReadDirNested replaces go-billy's test, which has 100 nested directories. The adapter
// resolves each path component by component, so that test takes seconds.
func (s *wireSuite) TestReadDirNested(c *check.C) {
	path := ""
	for i := range 10 {
		path = s.FS.Join(path, fmt.Sprint(i))
		c.Assert(s.FS.MkdirAll(path, 0o755), check.IsNil)
		list, err := s.FS.ReadDir(s.FS.Join(path, ".."))
		c.Assert(err, check.IsNil)
		c.Assert(len(list), check.Equals, 1)
	}
}

func TestSuiteOverTheWire(t *testing.T) {
	export := wire.Mount(t, newTree(t, osfs.New(t.TempDir()), adapters.Options{}))
	result := check.Run(&wireSuite{t: t, export: export}, &check.RunConf{Output: testWriter{t}})
	if !result.Passed() || result.Succeeded < 40 {
		t.Errorf("go-billy's tests: %v", result)
	}
}

// TestLock: a lock on a file excludes the file system's other handles on it until Unlock or Close.
func TestLock(t *testing.T) {
	fsys := billyv5.FromClient(t.Context(), wire.Mount(t, newTree(t, memfs.New(), adapters.Options{})))
	first, err := fsys.Create("file")
	must.Succeed(t, err)
	second, err := fsys.Open("file")
	must.Succeed(t, err, first.Lock())
	got := make(chan error)
	go func() { got <- second.Lock() }()
	select {
	case err := <-got:
		t.Fatalf("two files have the lock: %v", err)
	default:
	}
	must.Succeed(t, first.Close(), <-got, second.Unlock(), second.Close())
}

// A testWriter writes to a test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}
