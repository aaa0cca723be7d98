// Examples of the package.

package rconn_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	_ "github.com/nfsrdma/nfsrdma/rnic/iwarp" // so that "iwarp" is a network
	"github.com/nfsrdma/nfsrdma/rnic/rconn"
)

// HTTP over RDMA: the server takes the Listener, the client the Dial function.
func Example() {
	l, err := rconn.Listen("iwarp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, http.NotFoundHandler())

	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return rconn.Dial(ctx, "iwarp", addr, nil)
		},
	}}
	response, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 404 Not Found
}

// Half close: the server answers once it has read the whole request.
func ExampleConn_CloseWrite() {
	l, err := rconn.Listen("iwarp", "127.0.0.1:0", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if request, err := io.ReadAll(c); err == nil {
			_, _ = c.Write(bytes.ToUpper(request))
		}
	}()

	c, err := rconn.Dial(context.Background(), "iwarp", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("a request of any length")); err != nil {
		log.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	fmt.Println(string(answer), err)
	// Output: A REQUEST OF ANY LENGTH <nil>
}
