package sqlite

import "syscall"

// networkFS names the network file system that holds a folder, or "". Locks there do not end with their process, or
// are not seen by other machines at all. FUSE is let through: it says nothing of what is behind it.
func networkFS(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	switch uint32(st.Type) {
	case 0x6969:
		return "NFS", nil
	case 0x517b, 0xff534d42, 0xfe534d42:
		return "SMB", nil
	case 0x5346414f, 0x6b414653:
		return "AFS", nil
	case 0x00c36400:
		return "Ceph", nil
	case 0x0bd00bd0:
		return "Lustre", nil
	case 0x01161970, 0x7461636f:
		return "a cluster file system", nil
	}
	return "", nil
}
