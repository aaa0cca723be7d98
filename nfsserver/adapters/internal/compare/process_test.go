// The servers, each in a separate process: this program, started again.

package compare

import (
	"bufio"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	gonfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/billyv5"
	ourosfs "github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// serverEnv has the arguments of a process that serves: the server, the tree, a directory for the
// tree, and the number of handles.
const serverEnv = "NFSRDMA_COMPARE"

// Values for the server.
const (
	goNFS   = "go-nfs"
	ours    = "nfsserver" // this project's, over a tree of go-billy
	oursOwn = "osfs"      // this project's, over osfs
)

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(serverEnv))
	if len(words) == 0 {
		os.Exit(m.Run())
	}
	if err := serveWords(words); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process starts a server with a tree of its own in a separate process, and returns its address.
func process(b *testing.B, server, tree string, handles int) string {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", serverEnv, server, tree, b.TempDir(), handles))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	stop, err := cmd.StdinPipe() // closing it ends the server
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stop.Close()
		cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("%s: %v", server, err)
	}
	return strings.TrimSpace(addr)
}

// serveWords makes a tree, prints the address, and serves the tree until its input ends.
func serveWords(words []string) error {
	server, dir, handles := words[0], words[2], 0
	if _, err := fmt.Sscan(words[3], &handles); err != nil {
		return err
	}
	tree := memfs.New()
	if words[1] == "osfs" {
		tree = osfs.New(dir)
	}
	if err := fill(tree); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	switch server {
	case goNFS:
		gonfs.Log.SetLevel(gonfs.PanicLevel)
		go gonfs.Serve(l, helpers.NewCachingHandler(helpers.NewNullAuthHandler(&changeable{tree}), handles))
	case ours:
		var adapted nfsserver.FS
		if adapted, err = billyv5.New(tree, adapters.Options{}); err == nil {
			err = serve(l, adapted)
		}
	case oursOwn:
		var own nfsserver.FS
		if own, err = ourosfs.New(dir, ourosfs.Options{}); err == nil {
			err = serve(l, own)
		}
	}
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	os.Stdin.Read(make([]byte, 1)) // blocks until the input ends
	return nil
}

// serve serves a tree as /tree with this project's server.
func serve(l net.Listener, tree nfsserver.FS) error {
	self := nfsserver.Self()
	server, err := nfsserver.New(nfsserver.Options{
		Squash:  nfsserver.Squash{All: true, UID: self.UID, GID: self.GID, TrustLocal: true},
		Exports: []nfsserver.Export{{Name: "/tree", FS: tree}},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	_, err = server.Start(nfsserver.Listen{TCPOn: l})
	return err
}

// fill makes the directory to list, and the file to read.
func fill(tree billy.Filesystem) error {
	for i := range listed {
		if err := write(tree, fmt.Sprintf("many/entry%05d", i), 1); err != nil {
			return err
		}
	}
	return write(tree, "stream", streamSize)
}

// write makes a file with size bytes.
func write(tree billy.Filesystem, name string, size int) error {
	f, err := tree.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, min(size, streamBlock))
	for done := 0; done < size && err == nil; done += len(block) {
		_, err = f.Write(block)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// A changeable is a tree in which go-nfs can set modes, which its CREATE needs. It keeps no owners
// and times.
type changeable struct{ billy.Filesystem }

func (c *changeable) Chmod(name string, mode fs.FileMode) error {
	if tree, ok := c.Filesystem.(interface {
		Chmod(string, fs.FileMode) error
	}); ok {
		return tree.Chmod(name, mode)
	}
	return nil
}

func (*changeable) Lchown(string, int, int) error              { return nil }
func (*changeable) Chown(string, int, int) error               { return nil }
func (*changeable) Chtimes(string, time.Time, time.Time) error { return nil }
