// What the arguments and the results of all procedures have in common (RFC 1813 §3.3).

package nfs3

// Object returns the handle that the arguments begin with: those of each procedure but
// NULL begin with one, of the object that the call is on.
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

// SetStatus sets the status that the results begin with, and with it the arm that is encoded.
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
