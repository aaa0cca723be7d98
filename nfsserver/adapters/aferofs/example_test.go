// A tree in memory, exported and used over the wire.

package aferofs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/spf13/afero"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/aferofs"
)

// Export a file system, and write and read a file in it.
func ExampleNew() {
	tree, err := aferofs.New(afero.NewMemMapFs(), adapters.Options{})
	if err != nil {
		log.Fatal(err)
	}
	self := nfsserver.Self() // all callers act as the user of this process
	server, err := nfsserver.New(nfsserver.Options{
		Squash:  nfsserver.Squash{All: true, UID: self.UID, GID: self.GID},
		Exports: []nfsserver.Export{{Name: "/tree", FS: tree}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	defer service.Shutdown(ctx)
	client, err := nfsclient.Dial(ctx, service.TCPAddr.String(), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	export, err := client.Mount(ctx, "/tree")
	if err != nil {
		log.Fatal(err)
	}
	if err := export.WriteFile(ctx, "greeting", []byte("hello"), 0o644); err != nil {
		log.Fatal(err)
	}
	content, err := export.ReadFile(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", content)
	// Output: hello
}
