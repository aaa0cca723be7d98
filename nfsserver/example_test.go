// Examples of use: a file tree of one's own, served over RDMA and TCP.

package nfsserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// Serve a directory of this machine over RDMA and TCP, and stop without losing a call.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "served-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "greeting"), []byte("hello from the disk"), 0o644); err != nil {
		log.Fatal(err)
	}

	tree, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		log.Fatal(err)
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid()) // of this process
	server, err := nfsserver.New(nfsserver.Options{
		Squash:  nfsserver.Squash{All: true, UID: uid, GID: gid},
		Exports: []nfsserver.Export{{Name: "/share", FS: tree, ReadOnly: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close() // and the tree
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, service.RDMAAddr.String(), nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	share, err := client.Mount(ctx, "/share")
	if err != nil {
		log.Fatal(err)
	}
	content, err := share.ReadFile(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", content)
	client.Close()
	service.Shutdown(ctx) // takes no more calls, and waits for running ones
	// Output: hello from the disk
}

// A shouting tree shows the content of another one in capital letters, and refuses writes. The
// wrapped tree does the rest.
type shouting struct{ nfsserver.FS }

func (s shouting) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := s.FS.ReadAt(c, r, p, off)
	copy(p, bytes.ToUpper(p[:n]))
	return n, err
}

func (shouting) WriteAt(nfsserver.Cred, nfsserver.Ref, []byte, uint64) (int, error) {
	return 0, syscall.EROFS
}

// Serve two trees, one with an FS of its own, and use them over both transports.
func Example() {
	// All callers act as this user.
	me := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	tree := memfs.New(memfs.Options{UID: me.UID, GID: me.GID})
	server, err := nfsserver.New(nfsserver.Options{Squash: me, Exports: []nfsserver.Export{
		{Name: "/plain", FS: tree},
		{Name: "/loud", FS: shouting{tree}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer service.Shutdown(ctx)

	for addr, over := range map[string]nfsclient.Transport{
		service.RDMAAddr.String(): nfsclient.RDMA, service.TCPAddr.String(): nfsclient.TCP,
	} {
		client, err := nfsclient.Dial(ctx, addr, nfsclient.Options{Transport: over})
		if err != nil {
			log.Fatal(err)
		}
		plain, err := client.Mount(ctx, "/plain")
		if err != nil {
			log.Fatal(err)
		}
		loud, err := client.Mount(ctx, "/loud")
		if err != nil {
			log.Fatal(err)
		}
		if err := plain.WriteFile(ctx, "greeting", []byte("hello over "+over.String()), 0o644); err != nil {
			log.Fatal(err)
		}
		content, err := loud.ReadFile(ctx, "greeting")
		if err != nil {
			log.Fatal(err)
		}
		err = loud.WriteFile(ctx, "greeting", []byte("louder"), 0o644)
		fmt.Printf("%s; written back: %v\n", content, err)
		client.Close()
	}
	// Unordered output:
	// HELLO OVER RDMA; written back: write greeting: read-only file system (WRITE: NFS3ERR_ROFS)
	// HELLO OVER TCP; written back: write greeting: read-only file system (WRITE: NFS3ERR_ROFS)
}
