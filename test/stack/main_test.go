// What all tests here share: silence in the log.

package stack

import (
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/sirupsen/logrus"
)

var errNotExist = fs.ErrNotExist

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	os.Exit(m.Run())
}
