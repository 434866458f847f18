package wal

// What the crash tests and the fuzz targets need beyond the API.
var (
	OpenIn         = open
	DecodeLog      = decodeLogAgain
	DecodeSnapshot = decodeSnapshotAgain
)

// decodeLogAgain decodes a payload and encodes it again.
func decodeLogAgain(payload []byte) ([]byte, error) {
	first, operations, err := decodeLog(payload)
	if err != nil {
		return nil, err
	}
	if len(operations) == 0 {
		return appendClosed(nil, first), nil
	}
	b := appendClosed(nil, first)
	b[0] = batchFrame
	for _, o := range operations {
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
