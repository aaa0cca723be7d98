// Examples of use.

package nfsclient_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// List a directory and read a file over RDMA, with no mount.
func Example() {
	ctx := context.Background()
	target, err := nfsclient.ParseTarget("nfsrdma://server/export/dir")
	if err != nil {
		log.Fatal(err)
	}
	fsys, rest, err := nfsclient.Open(ctx, target, nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer fsys.Client().Close()
	for entry, err := range fsys.Entries(ctx, rest) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Name())
	}
	data, err := fsys.ReadFile(ctx, rest+"/file")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(data), "bytes")
}

// Write a file in parallel and make sure that it is on stable storage.
func ExampleFile_WriteAt() {
	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, "server:20049", nfsclient.Options{Conns: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fsys, err := client.Mount(ctx, "/export")
	if err != nil {
		log.Fatal(err)
	}
	f, err := fsys.Create(ctx, "big", 0o644)
	if err != nil {
		log.Fatal(err)
	}
	block := make([]byte, 64<<20) // travels in pieces of MaxWrite bytes, several at once
	if _, err := f.WriteAt(block, 0); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil { // COMMIT
		log.Fatal(err)
	}
}
