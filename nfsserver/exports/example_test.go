// An example of use: the rule of an exports file for a client.

package exports_test

import (
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// Parse a file, and find the options of two clients. A mistake has its line and column.
func Example() {
	file, err := exports.Parse("exports", []byte("/srv/data 192.168.1.0/24(rw) *(ro)\n"))
	if err != nil {
		log.Fatal(err)
	}
	for _, client := range []string{"192.168.1.7", "10.0.0.1"} {
		// No Resolver: no client is given by host name.
		match := file.Exports[0].Match(netip.MustParseAddr(client), nil)
		fmt.Println(client, match.Client.Options.String())
	}
	_, err = exports.Parse("exports", []byte("/srv/data *(rw,no_root_sqash)\n"))
	if mistake, ok := errors.AsType[*exports.Error](err); ok {
		fmt.Println(mistake.Line, mistake.Column)
	}
	// Output:
	// 192.168.1.7 rw,sync,secure,root_squash
	// 10.0.0.1 ro,sync,secure,root_squash
	// 1 16
}
