// Advice about a server that refuses this host. It leaves out reasons that do not apply.

package doctor

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
)

// portMatters reports whether TCP calls may be refused because their port is not reserved.
func (cu *checkup) portMatters(rdma bool) bool { return !rdma && !cu.reserved() }

// letInAdvice returns the advice after MNT has refused this host. groups are the export's clients;
// known is false if the server does not report them.
func (cu *checkup) letInAdvice(groups []string, known bool) string {
	const root = "run as root, because the server requires a reserved port (secure of exports(5)), or export with insecure"
	port := cu.portMatters(cu.mount == cu.rdma)
	m := rights.Unknown
	if known {
		m = rights.Among(groups, cu.local)
	}
	to := "the clients of the export"
	if len(groups) > 0 {
		to = strings.Join(groups, ",") + ", to which it is exported,"
	}
	host := "this host"
	if cu.local.IsValid() {
		host += ", " + cu.local.String() + ","
	}
	switch {
	case m == rights.Listed && port:
		return root
	case m == rights.Listed:
		return fmt.Sprintf("%s is among the clients of the export: see the server's log for the address it sees (a NAT between changes it)", host)
	case m == rights.NotListed && port:
		return fmt.Sprintf("add %s to %s on the server, and %s", host, to, root)
	case port:
		return fmt.Sprintf("add %s to %s on the server (exports(5)) if it is not there; else %s", host, to, root)
	}
	return fmt.Sprintf("add %s to %s on the server (exports(5))", host, to)
}
