// Examples of use: connect, list, read, write, errors, and several servers.

package nfsclient_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
)

// serveMemory serves a tree in memory as /share over RDMA, at a free port of this machine, for the
// examples. Servers with one key and one tree return the same handles, like those of a shared
// volume.
func serveMemory(tree nfsserver.FS) (addr string, stop func()) {
	me := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	server, err := nfsserver.New(nfsserver.Options{
		Key:     [nfsserver.KeySize]byte{1},
		Squash:  me,
		Exports: []nfsserver.Export{{Name: "/share", FS: tree}},
	})
	if err != nil {
		log.Fatal(err)
	}
	service, err := server.Start(nfsserver.Listen{RDMA: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	return service.RDMAAddr.String(), func() { service.Shutdown(context.Background()) }
}

// memory returns an empty tree, writable by this process's user.
func memory() nfsserver.FS {
	return memfs.New(memfs.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
}

// Write a file, list its directory and read it back over RDMA, with no mount.
func Example() {
	addr, stop := serveMemory(memory())
	defer stop()

	ctx := context.Background()
	target, err := nfsclient.ParseTarget("nfsrdma://" + addr + "/share") // nfs:// is TCP
	if err != nil {
		log.Fatal(err)
	}
	tree, _, err := nfsclient.Open(ctx, target, nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer tree.Client().Close()
	if err := tree.WriteFile(ctx, "greeting", []byte("hello over RDMA"), 0o644); err != nil {
		log.Fatal(err)
	}
	for entry, err := range tree.Entries(ctx, ".") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Name())
	}
	data, err := tree.ReadFile(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", data)
	// Output:
	// greeting
	// hello over RDMA
}

// Dial connects to a server; Mount of the client opens one of its exports.
func ExampleDial() {
	addr, stop := serveMemory(memory())
	defer stop()

	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, addr, nfsclient.Options{Conns: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	exports, err := client.Exports(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, export := range exports {
		fmt.Println(export.Dir)
	}
	tree, err := client.Mount(ctx, "/share")
	if err != nil {
		log.Fatal(err)
	}
	info, err := tree.Stat(ctx, ".")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Mode())
	// Output:
	// /share
	// drwxr-xr-x
}

// IO makes an export an fs.FS, for all uses of package io/fs.
func ExampleFS_IO() {
	addr, stop := serveMemory(memory())
	defer stop()

	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, addr, nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tree, err := client.Mount(ctx, "/share")
	if err != nil {
		log.Fatal(err)
	}
	if err := tree.MkdirAll(ctx, "docs/old", 0o755); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"docs/one.md", "docs/old/two.md"} {
		if err := tree.WriteFile(ctx, name, []byte("text"), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	err = fs.WalkDir(tree.IO(ctx), "docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fmt.Println(path)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// docs/old/two.md
	// docs/one.md
}

// Errors are those of io/fs and of package syscall; a *StatusError has the server's status.
func Example_errors() {
	addr, stop := serveMemory(memory())
	defer stop()

	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, addr, nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tree, err := client.Mount(ctx, "/share")
	if err != nil {
		log.Fatal(err)
	}
	_, err = tree.ReadFile(ctx, "missing")
	fmt.Println(err)
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	if status, ok := errors.AsType[*nfsclient.StatusError](err); ok {
		fmt.Println(status.Status)
	}

	// A context bounds a call, and so does Options.CallTimeout.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = tree.ReadFile(ended, "missing")
	fmt.Println(errors.Is(err, context.Canceled))

	_, err = client.Mount(ctx, "/other")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// open missing: no such file or directory (LOOKUP: NFS3ERR_NOENT)
	// true
	// nfs3: NFS3ERR_NOENT
	// true
	// true
}

// Name several servers of one volume, separated by commas: if the one in use goes away, the client
// continues with another that knows the same file handles.
func Example_failover() {
	tree := memory()
	a, stopA := serveMemory(tree)
	b, stopB := serveMemory(tree)
	stop := map[string]func(){a: stopA, b: stopB}

	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, a+","+b, nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	volume, err := client.Mount(ctx, "/share")
	if err != nil {
		log.Fatal(err)
	}
	if err := volume.WriteFile(ctx, "file", []byte("still here"), 0o644); err != nil {
		log.Fatal(err)
	}
	first := client.Links()[0].Addr
	stop[first]()

	data, err := volume.ReadFile(ctx, "file")
	if err != nil {
		log.Fatal(err)
	}
	second := client.Links()[0].Addr
	fmt.Printf("%s, from another server: %v\n", data, second != first)
	stop[second]()
	// Output: still here, from another server: true
}

// Write a file in parallel, and bring it to stable storage.
func ExampleFile_WriteAt() {
	addr, stop := serveMemory(memory())
	defer stop()

	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, addr, nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tree, err := client.Mount(ctx, "/share")
	if err != nil {
		log.Fatal(err)
	}
	f, err := tree.Create(ctx, "big", 0o644)
	if err != nil {
		log.Fatal(err)
	}
	block := make([]byte, 8<<20) // sent in pieces of MaxWrite bytes, several at once
	if _, err := f.WriteAt(block, 0); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil { // COMMIT: an error here means possible data loss
		log.Fatal(err)
	}
	info, err := tree.Stat(ctx, "big")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Size(), "bytes are stable")
	// Output: 8388608 bytes are stable
}
