// Host names of an exports file that do not resolve, for nfsrdmad check.

package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// lookupsAtOnce limits check's concurrent lookups of host names.
const lookupsAtOnce = 16

// unresolved returns a warning with its position for each host name in the file without an address
// in l. A repeated name gets one warning, at its first position.
func unresolved(ctx context.Context, l exports.Lookup, name string, f *exports.File) (warnings []error) {
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	var hosts []*exports.Client
	seen := map[string]bool{}
	for _, x := range f.Exports {
		for i := range x.Clients {
			if host := x.Clients[i].Host(); host != "" && !seen[host] {
				seen[host] = true
				hosts = append(hosts, &x.Clients[i])
			}
		}
	}
	errs := make([]error, len(hosts))
	slots := make(chan struct{}, lookupsAtOnce)
	var all sync.WaitGroup
	for i, c := range hosts {
		slots <- struct{}{}
		all.Go(func() {
			_, errs[i] = l.LookupNetIP(ctx, "ip", c.Host())
			<-slots
		})
	}
	all.Wait()
	for i, err := range errs {
		dns, ok := errors.AsType[*net.DNSError](err)
		switch {
		case err == nil:
			continue
		case ok && dns.IsNotFound:
			err = fmt.Errorf("warning: %s does not resolve: until it does, its rule lets no host in", hosts[i].Spec)
		default:
			err = fmt.Errorf("warning: %s cannot be looked up now (%w): until it can be, its rule lets no host in", hosts[i].Spec, err)
		}
		warnings = append(warnings, hosts[i].Mistake(name, err.Error()))
	}
	return warnings
}
