// An embedded tree, exported and read over the wire.

package iofs_test

import (
	"context"
	"embed"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/iofs"
)

//go:embed testdata
var files embed.FS

// Export the files in a program, and read one of them.
func ExampleNew() {
	tree, err := iofs.New(files, adapters.Options{Name: "/files"})
	if err != nil {
		log.Fatal(err)
	}
	server, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/files", FS: tree, ReadOnly: true}}})
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
	export, err := client.Mount(ctx, "/files")
	if err != nil {
		log.Fatal(err)
	}
	content, err := export.ReadFile(ctx, "testdata/hello.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", content)
	// Output: Hello from an embedded file.
}
