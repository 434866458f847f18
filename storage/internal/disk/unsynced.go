package disk

// Unsynced returns the directory with a Sync that does nothing: what was written survives the end of the process, and a crash
// of the machine only by chance.
func Unsynced(d Dir) Dir { return unsyncedDir{d} }

type unsyncedDir struct{ Dir }

// Create implements Writer.
func (d unsyncedDir) Create(name string) (File, error) { return unsynced(d.Dir.Create(name)) }

// Append implements Writer.
func (d unsyncedDir) Append(name string) (File, error) { return unsynced(d.Dir.Append(name)) }

// Sync implements Namer.
func (unsyncedDir) Sync() error { return nil }

func unsynced(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ File }

// Sync implements File.
func (unsyncedFile) Sync() error { return nil }
