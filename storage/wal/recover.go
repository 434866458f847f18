package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/keelson-dev/keelson/storage/internal/disk"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

const genesis = timeline.Genesis

// recovery reads a store's directory without changing it.
type recovery struct {
	dir      disk.Dir
	path     string
	identity uint64
	limits   timeline.Limits

	timeline      *timeline.Timeline
	revision      int64 // of the timeline
	snapshot      int64 // revision of the snapshot it starts from
	snapshotBytes int64
	logBytes      int64    // of the logs since, torn tail excluded
	earlier       []string // the logs before the last
	last          header
	lastSize      int64    // of the last log, torn tail excluded
	torn          int64    // bytes of the torn tail
	goesOn        bool     // the last log read says that another follows
	unused        []string // logs created but not used before the crash
}

func (r *recovery) run(l layout) error {
	r.snapshot, r.revision = genesis, genesis
	r.timeline = timeline.New(r.limits)
	if n := len(l.snapshots); n > 0 {
		r.snapshot, r.revision = l.snapshots[n-1], l.snapshots[n-1]
		r.timeline = timeline.At(r.snapshot, r.limits)
		if err := r.read(header{snapshotKind(), r.snapshot, r.identity}, snapshotName(r.snapshot), r.load); err != nil {
			return err
		}
	}
	current := l.logs[:0:0]
	for _, revision := range l.logs {
		if revision >= r.snapshot {
			current = append(current, revision)
		}
	}
	if len(current) == 0 {
		return missing(r.path, logName(r.snapshot))
	}
	for i, revision := range current {
		name := logName(revision)
		if revision != r.revision {
			return r.corrupt(name, 0, fmt.Sprintf("it continues revision %d, but what comes before ends at %d", revision, r.revision))
		}
		unused, err := r.allUnused(current[i+1:])
		if err != nil {
			return err
		}
		r.goesOn = false
		r.last = header{logKind(), revision, r.identity}
		if err := r.read(r.last, name, func(f *frameReader) error { return r.replay(f, unused) }); err != nil {
			return err
		}
		switch {
		case r.goesOn:
			r.earlier = append(r.earlier, name)
		case unused:
			for _, revision := range current[i+1:] {
				r.unused = append(r.unused, logName(revision))
			}
			return nil
		default:
			return r.corrupt(name, r.lastSize, "it ends early, as there is a later log")
		}
	}
	return missing(r.path, logName(r.revision))
}

// allUnused reports whether nothing has been written to any of these logs.
func (r *recovery) allUnused(logs []int64) (bool, error) {
	for _, revision := range logs {
		source, err := r.dir.Open(logName(revision))
		if err != nil {
			return false, err
		}
		size := source.Size()
		_ = source.Close() // read only
		if size > headerSize {
			return false, nil
		}
	}
	return true, nil
}

func (r *recovery) corrupt(name string, offset int64, reason string) error {
	return &CorruptError{File: filepath.Join(r.path, name), Offset: offset, Reason: reason}
}

// read opens a file and wraps damage found in it with its place.
func (r *recovery) read(h header, name string, use func(*frameReader) error) error {
	source, err := r.dir.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	frames, err := newFrameReader(source, h)
	var offset int64
	if err == nil {
		err = use(frames)
		offset = frames.offset
	}
	var bad *badFrame
	if errors.As(err, &bad) {
		return r.corrupt(name, offset, bad.reason)
	}
	return err
}

// load reads a snapshot into the timeline.
func (r *recovery) load(f *frameReader) error {
	var count int64
	var before string
	for {
		offset := f.offset
		payload, err := f.next()
		if errors.Is(err, io.EOF) {
			return damaged("the snapshot is cut off")
		}
		if err != nil {
			return err
		}
		records, total, end, err := decodeSnapshot(payload)
		if err != nil || end && (total != count || f.offset != f.source.Size()) {
			f.offset = offset
			return damaged(errPayload.Error())
		}
		if end {
			r.snapshotBytes = f.source.Size()
			return nil
		}
		for _, record := range records {
			if record.Key <= before || record.Revision <= 0 || record.Revision > r.snapshot {
				f.offset = offset
				return damaged(errPayload.Error())
			}
			before = record.Key
			r.timeline.Load(record)
		}
		count += int64(len(records))
	}
}

// replay applies a log to the timeline. One unreadable frame at the end of the last log is what a crash leaves of an
// unacknowledged write.
func (r *recovery) replay(f *frameReader, last bool) error {
	for {
		offset := f.offset
		payload, err := f.next()
		var bad *badFrame
		switch {
		case errors.Is(err, io.EOF):
			r.lastSize = f.offset
			r.logBytes += f.offset
			return nil
		case errors.As(err, &bad) && bad.torn && last:
			return r.cut(f, bad)
		case err != nil:
			return err
		}
		e, err := decodeEntry(payload)
		switch {
		case err == nil && r.goesOn:
			err = errors.New("frames follow the last one")
		case err == nil && e.revision != r.revision+1:
			err = fmt.Errorf("revision %d follows %d", e.revision, r.revision)
		}
		for i := 0; err == nil && i < len(e.operations); i++ {
			o := e.operations[i]
			err = r.timeline.Replay(o.event, o.key, o.value)
			r.revision++
		}
		if err != nil {
			f.offset = offset
			return damaged(err.Error())
		}
		r.goesOn = e.tag == nextFrame
	}
}

// cut decides whether an unreadable frame is a torn tail.
func (r *recovery) cut(f *frameReader, bad *badFrame) error {
	r.lastSize = f.offset
	r.logBytes += f.offset
	r.torn = f.source.Size() - f.offset
	if r.torn > maxPayload+frameHeaderSize {
		return bad // more than one write can leave
	}
	resumes, err := f.resumes()
	if err == nil && resumes {
		err = damaged(bad.reason + ", although later writes follow")
	}
	return err
}

// stale lists the files that the snapshot has made obsolete.
func stale(l layout, snapshot int64) []string {
	names := l.temporary
	for _, revision := range l.snapshots {
		if revision < snapshot {
			names = append(names, snapshotName(revision))
		}
	}
	for _, revision := range l.logs {
		if revision < snapshot {
			names = append(names, logName(revision))
		}
	}
	return names
}
