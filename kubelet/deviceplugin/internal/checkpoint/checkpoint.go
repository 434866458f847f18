// Package checkpoint is the format of kubelet_internal_checkpoint, the file in which upstream's kubelet keeps which devices of
// device plugins its pods have. The checksum in the file depends on the names of this package and of its types.
package checkpoint

import (
	"encoding/json"
	"errors"
	"hash/fnv"

	"k8s.io/utils/dump"
)

// ErrCorrupt means that the checksum is not that of the data.
var ErrCorrupt = errors.New("checkpoint is corrupted")

// DevicesPerNUMA are the IDs of devices by NUMA node; -1 has those of no node.
type DevicesPerNUMA map[int64][]string

// PodDevicesEntry is what a container has of one resource. AllocResp is the plugin's ContainerAllocateResponse, encoded.
type PodDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     DevicesPerNUMA
	AllocResp     []byte
}

// checkpointData is what the checksum is of.
type checkpointData struct {
	PodDeviceEntries  []PodDevicesEntry
	RegisteredDevices map[string][]string
}

type file struct {
	Data     checkpointData
	Checksum uint64
}

// Encode returns the content of the file.
func Encode(entries []PodDevicesEntry, registered map[string][]string) ([]byte, error) {
	data := checkpointData{entries, registered}
	return json.Marshal(file{data, checksum(data)})
}

// Decode reads the content of the file. It fails with ErrCorrupt if the checksum is wrong.
func Decode(content []byte) (entries []PodDevicesEntry, registered map[string][]string, err error) {
	var f file
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, nil, err
	}
	if f.Checksum != checksum(f.Data) {
		return nil, nil, ErrCorrupt
	}
	return f.Data.PodDeviceEntries, f.Data.RegisteredDevices, nil
}

func checksum(data checkpointData) uint64 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(dump.ForHash(data)))
	return uint64(hash.Sum32())
}
