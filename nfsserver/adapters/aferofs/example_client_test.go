// An export as a file system of afero.

package aferofs_test

import (
	"context"
	"log"

	"github.com/spf13/afero"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/aferofs"
)

// Write a file of an export by afero.
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
	if err := afero.WriteFile(aferofs.FromClient(ctx, export), "page.txt", []byte("hello"), 0o644); err != nil {
		log.Fatal(err)
	}
}
