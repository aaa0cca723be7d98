// Command web serves a directory by HTTP over RDMA, and gets files from it: an example of package
// rconn, over iWARP or RoCE.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	_ "github.com/nfsrdma/nfsrdma/rnic/iwarp" // so that "iwarp" is a network
	"github.com/nfsrdma/nfsrdma/rnic/rconn"
	_ "github.com/nfsrdma/nfsrdma/rnic/roce" // so that "roce" is one, too
)

// serve answers requests for files below dir, until l is closed.
func serve(l net.Listener, dir string) error {
	server := http.Server{Handler: http.FileServer(http.Dir(dir))}
	return server.Serve(l)
}

// clientOver returns an HTTP client with connections over RDMA.
func clientOver(network string, cfg *rconn.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return rconn.Dial(ctx, network, addr, cfg)
		},
	}}
}

// get writes the body of a URL to w.
func get(client *http.Client, url string, w io.Writer) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(w, response.Body)
	return err
}

func run(args []string) error {
	if len(args) != 4 && (len(args) != 3 || args[0] != "get") {
		return errors.New("usage: web serve iwarp|roce HOST:PORT DIR, or web get iwarp|roce http://HOST:PORT/FILE")
	}
	if args[0] == "get" {
		return get(clientOver(args[1], nil), args[2], os.Stdout)
	}
	l, err := rconn.Listen(args[1], args[2], nil)
	if err != nil {
		return err
	}
	return serve(l, args[3])
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}
