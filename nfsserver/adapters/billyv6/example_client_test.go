// An export as a file system of go-billy.

package billyv6_test

import (
	"context"
	"log"

	"github.com/go-git/go-billy/v6/util"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/billyv6"
)

// Write a file of an export by go-billy.
func ExampleFromClient() {
	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, "server.example.org", nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	export, err := client.Mount(ctx, "/tree")
	if err != nil {
		log.Fatal(err)
	}
	files := billyv6.FromClient(ctx, export)
	if err := util.WriteFile(files, "docs/page.txt", []byte("hello"), 0o644); err != nil {
		log.Fatal(err)
	}
}
