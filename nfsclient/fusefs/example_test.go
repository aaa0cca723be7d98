// Mounting from your own program.

package fusefs_test

import (
	"context"
	"log"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// A program mounts an export, and serves it until it is unmounted.
func Example() {
	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, "server.example", nfsclient.Options{CallTimeout: -1}) // hard
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	export, err := client.Mount(ctx, "/export")
	if err != nil {
		log.Fatal(err)
	}
	mount, err := fusefs.Mount(ctx, export, "/mnt", fusefs.Options{Source: "server.example:/export"})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(mount.Wait())
}
