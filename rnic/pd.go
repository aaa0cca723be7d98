// The Protection Domain: it ties Memory Regions to the QPs allowed to use them (RFC 5041 §8.2).

package rnic

import "sync"

// A PD groups QPs and Memory Regions: an STag is valid only on QPs of its PD.
type PD struct {
	dev *Device // set once

	mu  sync.Mutex
	qps map[*QP]struct{} // guarded by mu; QPs not closed
}

// AllocPD returns a new Protection Domain.
func (d *Device) AllocPD() *PD {
	return &PD{dev: d, qps: make(map[*QP]struct{})}
}

// RegMR registers buf under a new random STag; the device chooses the base TO. The MR owns the
// buffer until Invalidate or Dereg has returned.
func (pd *PD) RegMR(buf []byte, access Access) (*MR, error) {
	mr, err := pd.AllocMR()
	if err != nil {
		return nil, err
	}
	mr.mu.Lock()
	mr.buf, mr.access, mr.valid = buf, access, true
	mr.mu.Unlock()
	return mr, nil
}

// AllocMR returns an MR that is invalid until Rereg.
func (pd *PD) AllocMR() (*MR, error) {
	mr := &MR{pd: pd}
	if err := pd.dev.stags.insert(mr); err != nil {
		return nil, err
	}
	mr.base = uint64(mr.index) << 16
	return mr, nil
}

func (pd *PD) attach(qp *QP) {
	pd.mu.Lock()
	pd.qps[qp] = struct{}{}
	pd.mu.Unlock()
}

func (pd *PD) detach(qp *QP) {
	pd.mu.Lock()
	delete(pd.qps, qp)
	pd.mu.Unlock()
}

// sole reports whether qp is the only QP in the PD, so that a PD-wide STag belongs to it alone.
func (pd *PD) sole(qp *QP) bool {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	_, ok := pd.qps[qp]
	return ok && len(pd.qps) == 1
}

// each returns all QPs of the PD.
func (pd *PD) each() []*QP {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	qps := make([]*QP, 0, len(pd.qps))
	for qp := range pd.qps {
		qps = append(qps, qp)
	}
	return qps
}
