// An example of use: a tree in memory, served.

package memfs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
)

// Serve a tree in memory over RDMA. It is gone when the server is closed.
func Example() {
	tree := memfs.New(memfs.Options{Mode: 0o777})
	server, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/scratch", FS: tree}}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	service, err := server.Start(nfsserver.Listen{RDMA: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Shutdown(context.Background())
	fmt.Println("serving", server.Names())
	// Output: serving [/scratch]
}
