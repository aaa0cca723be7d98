// Common to all tests here: no log output.

package stack

import (
	"io/fs"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

var errNotExist = fs.ErrNotExist

func TestMain(m *testing.M) {
	machine.QuietLog()
	os.Exit(m.Run())
}
