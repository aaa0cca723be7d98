// An NFS server and its client in one program: the program of docs/tutorial-embed.md.

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// serve exports a directory and a view of it over TCP and RDMA, on free local ports.
func serve(dir string) (*nfsserver.Server, *nfsserver.Service, error) {
	files, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		return nil, nil, err
	}
	view, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		return nil, nil, err
	}
	me := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	server, err := nfsserver.New(nfsserver.Options{Squash: me, Exports: []nfsserver.Export{
		{Name: "/files", FS: files},
		{Name: "/upper", FS: upper{view}},
	}})
	if err != nil {
		return nil, nil, err
	}
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	return server, service, err
}

// upper is a custom file tree: it embeds another one and replaces two of its methods.
type upper struct{ nfsserver.FS }

func (u upper) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := u.FS.ReadAt(c, r, p, off)
	copy(p, bytes.ToUpper(p[:n]))
	return n, err
}

func (upper) WriteAt(nfsserver.Cred, nfsserver.Ref, []byte, uint64) (int, error) {
	return 0, syscall.EROFS
}

// list prints the names and contents of an export.
func list(ctx context.Context, url string) error {
	target, err := nfsclient.ParseTarget(url)
	if err != nil {
		return err
	}
	tree, _, err := nfsclient.Open(ctx, target, nfsclient.Options{})
	if err != nil {
		return err
	}
	defer tree.Client().Close()
	files := tree.IO(ctx)
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Printf("%s: %s\n", path, content)
		return err
	})
}

func main() {
	dir, err := os.MkdirTemp("", "embed")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "greeting"), []byte("hello"), 0o644); err != nil {
		log.Fatal(err)
	}
	server, service, err := serve(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	defer service.Shutdown(ctx)
	for _, url := range []string{
		"nfsrdma://" + service.RDMAAddr.String() + "/files",
		"nfs://" + service.TCPAddr.String() + "/upper",
	} {
		if err := list(ctx, url); err != nil {
			log.Fatal(err)
		}
	}
}
