// Common parts of all procedures' arguments and results (RFC 1813 §3.3).

package nfs3

// Object returns the arguments' first handle, the call's object. All procedures but NULL have a
// handle.
func (a *FHArgs) Object() *FH          { return &a.FH }
func (a *SetattrArgs) Object() *FH     { return &a.FH }
func (a *DirOpArgs) Object() *FH       { return &a.Dir }
func (a *AccessArgs) Object() *FH      { return &a.FH }
func (a *ReadArgs) Object() *FH        { return &a.FH }
func (a *WriteArgs) Object() *FH       { return &a.FH }
func (a *CreateArgs) Object() *FH      { return &a.Where.Dir }
func (a *MkdirArgs) Object() *FH       { return &a.Where.Dir }
func (a *SymlinkArgs) Object() *FH     { return &a.Where.Dir }
func (a *MknodArgs) Object() *FH       { return &a.Where.Dir }
func (a *RenameArgs) Object() *FH      { return &a.From.Dir }
func (a *LinkArgs) Object() *FH        { return &a.FH }
func (a *ReaddirArgs) Object() *FH     { return &a.Dir }
func (a *ReaddirplusArgs) Object() *FH { return &a.Dir }

// SetStatus sets the result's status, which selects the encoded arm.
func (r *GetattrRes) SetStatus(s Status)     { r.Status = s }
func (r *WccRes) SetStatus(s Status)         { r.Status = s }
func (r *LookupRes) SetStatus(s Status)      { r.Status = s }
func (r *AccessRes) SetStatus(s Status)      { r.Status = s }
func (r *ReadlinkRes) SetStatus(s Status)    { r.Status = s }
func (r *ReadRes) SetStatus(s Status)        { r.Status = s }
func (r *WriteRes) SetStatus(s Status)       { r.Status = s }
func (r *CreateRes) SetStatus(s Status)      { r.Status = s }
func (r *RenameRes) SetStatus(s Status)      { r.Status = s }
func (r *LinkRes) SetStatus(s Status)        { r.Status = s }
func (r *ReaddirRes) SetStatus(s Status)     { r.Status = s }
func (r *ReaddirplusRes) SetStatus(s Status) { r.Status = s }
func (r *FsstatRes) SetStatus(s Status)      { r.Status = s }
func (r *FsinfoRes) SetStatus(s Status)      { r.Status = s }
func (r *PathconfRes) SetStatus(s Status)    { r.Status = s }
func (r *CommitRes) SetStatus(s Status)      { r.Status = s }
