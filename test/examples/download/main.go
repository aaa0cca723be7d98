// Copies an export without mounting it: the README's example of the client library.

package main

import (
	"context"
	"fmt"
	"os"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

func download(ctx context.Context, url, dir string) error {
	target, err := nfsclient.ParseTarget(url) // nfsrdma://HOST/export, or nfs://HOST/export over TCP
	if err != nil {
		return err
	}
	tree, below, err := nfsclient.Open(ctx, target, nfsclient.Options{})
	if err != nil {
		return err
	}
	defer tree.Client().Close()
	if tree, err = tree.Sub(ctx, below); err != nil { // below is "" for the export itself
		return err
	}
	return os.CopyFS(dir, tree.IO(ctx)) // an fs.FS, so all of io/fs works with it
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: download nfsrdma://HOST/export DIR")
		os.Exit(2)
	}
	if err := download(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "download:", err)
		os.Exit(1)
	}
}
