//! The two checksums of a FLAC frame.

/// CRC-8 of a frame header, with the polynomial x^8 + x^2 + x + 1.
pub(super) fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 })
    })
}

/// For each byte: its CRC-16 when 0 to 7 zero bytes follow it.
const TABLES: [[u16; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = before << 8 ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
};

/// CRC-16 of a frame, with the polynomial x^16 + x^15 + x^2 + 1, continued from `crc`. Over a frame and its own
/// checksum it is 0.
pub(super) fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    let look = |zeros: usize, byte: u8| TABLES[zeros][usize::from(byte)];
    let (eights, rest) = bytes.as_chunks::<8>();
    let crc = eights.iter().fold(crc, |crc, [a, b, c, d, e, f, g, h]| {
        let [high, low] = crc.to_be_bytes();
        look(7, a ^ high)
            ^ look(6, b ^ low)
            ^ look(5, *c)
            ^ look(4, *d)
            ^ look(3, *e)
            ^ look(2, *f)
            ^ look(1, *g)
            ^ look(0, *h)
    });
    rest.iter().fold(crc, |crc, byte| crc << 8 ^ look(0, byte ^ (crc >> 8) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values that catalogues of CRCs give for these two (SMBUS, BUYPASS).
    #[test]
    fn check_values() {
        assert_eq!(crc8(b"123456789"), 0xf4);
        assert_eq!(crc16(0, b"123456789"), 0xfee8);
        assert_eq!(crc16(crc16(0, b"1234"), b"56789"), 0xfee8);
    }
}
