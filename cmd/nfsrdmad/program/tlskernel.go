// The choice of --tls-kernel: whether this process encrypts sessions, or the Linux kernel.

package program

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
)

// Modes of --tls-kernel.
const (
	kernelOff  = "off"
	kernelOn   = "on"
	kernelAuto = "auto"
)

var kernelModes = []string{kernelOff, kernelOn, kernelAuto}

// chooseKernel sets inKernel according to --tls-kernel and to probe, which is
// transport.ProbeKernelTLS except in tests.
func (s *security) chooseKernel(probe func() (rekeys bool, err error)) error {
	switch {
	case !slices.Contains(kernelModes, s.tlsKernel):
		return fmt.Errorf("--tls-kernel %q: must be %s", s.tlsKernel, strings.Join(kernelModes, ", "))
	case s.tlsKernel == kernelOff:
		return nil
	case s.store == nil:
		return errors.New("--tls-kernel needs a certificate: name it with --tls-cert")
	}
	rekeys, err := probe()
	switch {
	case err != nil && s.tlsKernel == kernelOn:
		return fmt.Errorf("--tls-kernel on: %w: load the kernel's module (modprobe tls), or write auto", err)
	case err != nil:
		logrus.Infof("--tls-kernel auto: this process encrypts: %v", err)
	case rekeys || s.tlsKernel == kernelOn:
		s.inKernel = true
	default:
		logrus.Info("--tls-kernel auto: this process encrypts: the kernel is older than Linux 6.14, and ends sessions of clients that change their keys")
	}
	return nil
}
