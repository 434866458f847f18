package wal

// What the crash tests and the fuzz targets need beyond the API.
var (
	OpenIn         = open
	DecodeLog      = decodeLogAgain
	DecodeSnapshot = decodeSnapshotAgain
)

// decodeLogAgain decodes a payload and encodes it again.
func decodeLogAgain(payload []byte) ([]byte, error) {
	e, err := decodeEntry(payload)
	if err != nil {
		return nil, err
	}
	b := appendMark(nil, e.tag, e.revision)
	for _, o := range e.operations {
		b = appendOperation(b, o)
	}
	return b, nil
}

// decodeSnapshotAgain decodes a payload and encodes it again.
func decodeSnapshotAgain(payload []byte) ([]byte, error) {
	records, total, end, err := decodeSnapshot(payload)
	if err != nil {
		return nil, err
	}
	if end {
		return appendEnd(nil, total), nil
	}
	b := []byte{recordsFrame}
	for _, r := range records {
		b = appendRecord(b, r)
	}
	return b, nil
}
