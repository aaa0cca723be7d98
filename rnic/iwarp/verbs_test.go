// The suite of all providers, run over this one.

package iwarp_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

func TestVerbs(t *testing.T) {
	rnictest.Verbs(t, rnictest.Bed{Open: iwarp.Open, Network: "tcp", Addr: "127.0.0.1:0"})
}
